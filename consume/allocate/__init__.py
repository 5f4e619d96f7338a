"""Which queues of a topic each member of a group reads."""
