"""Who reads from which queue.

The files of the folder itself are what users hold and what coordinates their groups. Which room inside imports from
which:

    deliver  -> group, allocate
    group    -> allocate
    allocate -> nothing
"""
