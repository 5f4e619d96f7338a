"""One target of tests/fuzz/targets/ under atheris (the extra `fuzz`), guided by coverage:

    run_files.py NAME [libFuzzer's options] [FOLDER ...]

Its sound inputs are put into the first folder. `run.py` and `make fuzz` call this; given a file, it tries that alone.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import atheris


def main() -> None:
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["flightlog"]):
        from flightlog.tests.support import fuzzing

        target = fuzzing.load_target(name)
    logging.disable()
    folder = next((Path(each) for each in arguments if Path(each).is_dir()), None)
    if folder is not None:
        for number, data in enumerate(target.seeds()):
            (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup([sys.argv[0], *arguments], target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
