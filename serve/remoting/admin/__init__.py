"""What answers the tools of operators alone.

broker, statistics    the state of the broker that this server is
groups                consumer groups
relayed               questions that a member of a group answers
"""
