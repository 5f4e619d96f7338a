"""Bytes on disk, one module a format: records, frames, inner batches, properties, ids, hashes, compression."""
