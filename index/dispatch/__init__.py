"""From frames of the commit log to entries of queues and keys."""
