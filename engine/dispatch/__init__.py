"""Dispatch: build consume queues and the key index from the log, live behind the appends or over a range."""
