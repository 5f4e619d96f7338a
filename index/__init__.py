"""Derived data, which can be rebuilt from the commit log: consume queues, the key index, and their dispatch.

Which room inside imports from which:

    dispatch -> key, queue
    filter   -> queue
    key      -> nothing
    queue    -> nothing
"""
