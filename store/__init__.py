"""The truth: the commit log and everything that a record needs to be written, found damaged, or trusted.

Whatever can be rebuilt from the log lives on the floors above this one.
"""
