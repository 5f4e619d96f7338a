"""Puts: the fast path, the slow path, group commit, futures, columns, and atomic appends across topics."""
