"""One group: its members, who has which queue, and how far it has come."""
