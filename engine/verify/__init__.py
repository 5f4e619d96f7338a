"""Verify: check log, seals, queues and key index of a whole store, and report damage and lag."""
