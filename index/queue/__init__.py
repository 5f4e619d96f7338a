"""Consume queues: entries of fixed length that point at the messages of a queue in the log."""
