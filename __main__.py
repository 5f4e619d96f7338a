"""`python -m flightlog` and the command `flightlog`: hands over to `tools/`, whose packages are an extra."""

from __future__ import annotations

import sys

from .store.errors import MissingExtraError

COMMAND_LINE_PACKAGES = ("click", "rich", "typer")


def main() -> int:
    """Run the command line; returns its exit code. Without the extra `tools`: one line that names it, and 2."""
    try:
        from .tools.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in COMMAND_LINE_PACKAGES:
            raise
        missing = MissingExtraError("tools", "the command line")
        print(f"flightlog: {missing}", file=sys.stderr)
        return missing.exit_code
    return run()


if __name__ == "__main__":
    sys.exit(main())
