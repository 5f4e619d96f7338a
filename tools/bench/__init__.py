"""The bench: `flightlog bench`, and the harness of `benches/`.

A figure never stands alone: the limit of this machine (memcpy, a raw fdatasync loop) is measured in the same rounds,
and the ratio to it is what may be compared between machines.

    case          the one model: a case, a run of it, its outcome
    runner        runs cases round by round
    plan          which cases a run consists of
    report, plot  tell outcomes: tables, JSON, pictures
    run, scan_run whole runs

Which room inside imports from which:

    scan    -> machine
    writers -> machine
    reads   -> machine
    machine -> nothing
"""
