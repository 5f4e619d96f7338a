"""What hands messages to users, waits for their acknowledgement, and hands them out again."""
