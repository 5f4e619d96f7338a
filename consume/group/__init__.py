"""One group: its members, the owner of each queue, and its offsets."""
