"""`df.write` and `df.writeStream`: tasks stage rows, and one commit appends them."""
