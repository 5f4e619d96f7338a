"""Which messages of a queue a reader wants."""
