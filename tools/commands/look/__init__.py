"""Commands that show what a store has. They take no lock and change nothing."""
