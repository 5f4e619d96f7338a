"""Consumer groups: membership, queue allocation, delivery, offsets.

The files of the folder itself are the classes that users hold, and the coordinator of their groups. Which room inside
imports from which:

    pop      -> group, retry
    deliver  -> group, allocate, retry
    group    -> allocate, retry
    allocate -> nothing
    retry    -> nothing
    deduplication -> nothing
"""
