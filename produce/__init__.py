"""Producers: which queue a message is sent to."""
