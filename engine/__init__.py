"""One store put together: open, put, read, recover, verify, close."""
