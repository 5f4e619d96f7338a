"""Checking a whole store against itself."""
