"""What we measure for ourselves: `run.py targets`, `readers`, `delay`, `messaging`; `--help` lists their options."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

# The root itself must not be on the path: what stands there is imported as `flightlog` alone.
benches = ModuleType("benches")
benches.__path__ = [str(Path(__file__).resolve().parent)]
sys.modules["benches"] = benches

if __name__ == "__main__":
    from benches.program import main

    sys.exit(main())
