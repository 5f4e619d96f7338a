"""What is done with stores that are there: read, ask, verify, recover."""
