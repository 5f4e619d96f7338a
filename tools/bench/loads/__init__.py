"""One way to write messages, and its calls to a writer."""
