"""The one door to the disk: its errors, locks, clock, hints, and small state files written whole."""
