"""Commands that tell how a store is doing, beside its writer too."""
