"""Ids that were seen, so that a message that comes twice has one effect. Knows nothing of stores and groups."""
