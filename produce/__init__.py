"""Producers: which queue a message is sent to, and transactions.

Which room inside imports from which:

    transaction -> nothing
"""
