"""Planning in the driver: ranges of the log and of queues, one or more for each task."""
