"""Tag and SQL filters: which messages of a queue a reader gets."""
