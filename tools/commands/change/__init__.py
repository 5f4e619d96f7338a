"""Commands that change topics, groups, offsets and dead letters of a store."""
