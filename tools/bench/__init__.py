"""The bench: `flightlog bench`, and the harness of `benches/`.

Every figure has a reference: the limit of this machine (memcpy, a raw fdatasync loop) is measured in the same rounds,
and only the ratio to it can be compared between machines.

    case          the one model: a case, a run of it, its outcome
    runner        runs cases round by round, and sizes their rounds
    plan          selects the cases of a run
    report, plot  output: tables, JSON, plots
    harness       what all runs share: options, scratch folder, progress, output
    run           a complete run over the store
    scan_run      a complete run through Spark
    served_run    a complete run over `flightlog serve`

Which room inside imports from which:

    scan    -> machine
    writers -> machine
    reads   -> machine
    served  -> nothing
    machine -> nothing
"""
