"""Consume queues: entries of fixed length that say where the messages of a queue lie in the log."""
