"""Who reads from which queue."""
