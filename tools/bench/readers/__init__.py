"""Many readers on a backlog, beside a writer."""
