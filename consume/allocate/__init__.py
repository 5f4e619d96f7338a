"""Allocation strategies: which queues of a topic each member of a group reads."""
