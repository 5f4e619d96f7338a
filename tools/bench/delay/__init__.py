"""How late messages come that wait, and what a store costs that waits."""
