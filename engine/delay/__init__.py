"""Delay levels and timers in an open store: what parks messages, and what delivers them."""
