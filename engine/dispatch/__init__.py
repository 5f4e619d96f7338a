"""Queues and keys from the log: over a range, and live behind the appends."""
