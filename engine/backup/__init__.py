"""Copies of a whole store, consistent beside its writer: `backup`, `copy_store`, and the pass over its files."""
