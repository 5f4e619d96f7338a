"""The topics of a store, and what can be asked of them."""
