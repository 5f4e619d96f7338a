"""Commands that check a store, and mend it."""
