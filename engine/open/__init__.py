"""Opening a store, with crash recovery: shutdown state of the last writer, tail scan, recovery, cut of a torn tail."""
