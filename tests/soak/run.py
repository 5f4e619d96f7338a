"""`make soak`: a store under mixed load, killed, cut off its power and starved of room, for as long as is asked.

    run.py --minutes 60 [--seed 7] [--cuts 1000000] [--plain]

Says its seed first and sums up at the end; exits with 1 if something was found, and says where the store was kept. The
same file is the program of its writers (`run.py writer PLACE`) and of its views (`run.py reader SEED`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

# The root itself must not be on the path: what stands there is imported as `flightlog` alone.
tests = ModuleType("tests")
tests.__path__ = [str(Path(__file__).resolve().parents[1])]
sys.modules["tests"] = tests

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["writer", place]:
            from tests.soak.writer import main as write

            write(Path(place))
        case ["reader", seed]:
            from tests.soak.reader import main as read

            read(seed)
        case arguments:
            from tests.soak.command import main

            sys.exit(main(arguments))
