"""What we measure for ourselves: `run.py targets`, `readers`, `delay`, `messaging`; `--help` lists their options."""

from __future__ import annotations

import sys

from flightlog.benches.program import main

if __name__ == "__main__":
    sys.exit(main())
