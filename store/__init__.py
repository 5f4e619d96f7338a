"""The truth: the commit log and everything that a record needs to be written, found damaged, or trusted.

Whatever can be rebuilt from the log lives on the floors above this one. The files of the folder itself are the words
that every floor uses: settings, errors, messages, results, topics. Which room inside imports from which:

    conf     -> segments, disk, format
    seal     -> log, segments, state, disk, format
    log      -> scan, segments, state, disk, format, native
    scan     -> segments, disk, format, native
    segments -> disk, native
    state    -> disk, format
    disk     -> native
    format   -> native
    native   -> format

One arrow leads up: the kernel's reference in Python is written in the words of the formats, and they call the kernel.
"""
