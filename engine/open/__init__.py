"""Opening a store: shutdown state of the last writer, tail scan, recovery, truncation of a torn tail."""
