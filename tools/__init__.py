"""What people run: the command line, the demo, the one bench harness. The demo's first half needs the core alone.

Which room inside imports from which:

    commands -> bench, demo, records, transfer
    bench    -> nothing
    demo     -> nothing
    transfer -> records
    records  -> nothing
"""
