"""Messages into a store: check, append, wait for the sync; rows of several topics at once."""
