"""The key index: from a key to the records that carry it."""
