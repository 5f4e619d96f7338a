"""Who writes to which queue."""
