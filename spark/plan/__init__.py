"""What the driver works out before a query runs: ranges of the log and of queues, for one task each."""
