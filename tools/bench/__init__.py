"""The one bench harness: `python -m flightlog.tools.bench`, `flightlog bench` and `benches/` run the same cases.

A figure never stands alone: the limit of this machine (memcpy, a raw fdatasync loop) is measured in the same rounds,
and the ratio to it is what may be compared between machines.

Which room inside imports from which:

    scan      -> telling, machine
    versus    -> telling, writers, loads, cases, machine
    telling   -> writers, loads, cases, machine
    writers   -> loads, cases
    loads     -> cases
    cases     -> machine
    machine   -> nothing
"""
