"""`python -m flightlog` and the command `flightlog`: hands over to `tools/`, whose packages are an extra."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from .store.errors import MissingExtraError
from .tools.version import version_text

COMMAND_LINE_PACKAGES = ("rich", "typer")


def main() -> int:
    """Run the command line; returns its exit code. Without the extra `tools`: one line that names it, and 2;
    `--version` works."""
    if not all(find_spec(name) for name in COMMAND_LINE_PACKAGES):
        if sys.argv[1:] == ["--version"]:
            print(version_text())
            return 0
        missing = MissingExtraError("tools", "the command line")
        print(f"flightlog: {missing}", file=sys.stderr)
        return missing.exit_code
    from .tools.app import run

    return run()


if __name__ == "__main__":
    sys.exit(main())
