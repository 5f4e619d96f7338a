"""`df.write` and `df.writeStream`: rows are staged by tasks and appended by one commit."""
