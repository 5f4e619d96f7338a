"""What answers a request, one idea a file: each translates to what the store has for it.

topics ──> directory             the name server, and making and deleting topics
members ──> sending, pulling, assignments, offsets, queue_locks, transactions, failed, lookups, replies
popping                          messages for an invisible time
all of them ──> request          what was asked, how it is answered, how it is refused
"""
