"""The commands of the command line, one in each file. What changes a store does so with `--write` alone.

Which room inside imports from which:

    look   -> nothing
    check  -> nothing
    move   -> nothing
    change -> nothing
    watch  -> nothing
"""
