"""Every figure that this store has to come to, each held against its target."""
