"""What is derived from the commit log and can be rebuilt from it: consume queues, the key index, and their dispatch.

Which room inside imports from which:

    dispatch -> key, queue
    filter   -> queue
    key      -> nothing
    queue    -> nothing
"""
