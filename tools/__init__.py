"""What people run: the command line, the demo, and the one bench harness. The demo's first half needs the core alone."""
