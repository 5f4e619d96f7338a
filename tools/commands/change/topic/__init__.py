"""The commands that create, change and delete topics."""
