"""`make soak`: a store under mixed load, killed, cut off its power and starved of room, for as long as is asked.

    run.py --minutes 60 [--seed 7] [--cuts 1000000] [--plain]

Says its seed first and sums up at the end; exits with 1 if something was found, and says where the store was kept. The
same file is the program of its writers (`run.py writer PLACE`) and of its views (`run.py reader SEED`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from flightlog.tests.soak.command import main
from flightlog.tests.soak.reader import main as read
from flightlog.tests.soak.writer import main as write

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["writer", place]:
            write(Path(place))
        case ["reader", seed]:
            read(seed)
        case arguments:
            sys.exit(main(arguments))
