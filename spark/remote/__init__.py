"""Stores that no machine mounts: addresses, storages, and a disk over them."""
