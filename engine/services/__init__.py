"""The threads of an open store, what wakes them, and what they do: flush, prepare, retention, maintenance."""
