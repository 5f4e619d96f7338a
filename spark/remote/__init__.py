"""Stores in remote storage: addresses, storages, and a disk over them."""
