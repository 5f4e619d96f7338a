"""`python -m flightlog.tools.bench`: measure, and tell it beside what this machine can do at best."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..program import run_program
from .run import Options, run


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m flightlog.tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the messages and two rounds: a smoke test")
    parser.add_argument("--rounds", type=int, help="how often each case is measured; the median counts (default 5)")
    parser.add_argument("--no-spark", action="store_true", help="leave the Spark scan out")
    parser.add_argument(
        "--folder", type=Path, help="measure in this folder's file system (default: the temporary folder)"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object instead of the table")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(run_program(lambda: run(_options())))
