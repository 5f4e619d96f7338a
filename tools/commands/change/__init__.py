"""Commands that change topics, groups, offsets and dead letters of a store. Which room inside imports from which:

topic -> nothing
"""
