"""How a program of ours ends: with an exit code, and with one line for whatever its user can mend.

    0     done
    1     done, and something was found (`verify`)
    2     the call was wrong
    3     a store cannot be read or written
    130   interrupted by the keyboard

An exception that nobody foresaw keeps its traceback: it is a bug, and the traceback is the report.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable

from ..store.errors import EXIT_UNREADABLE, FlightlogError

EXIT_FINDINGS = 1
EXIT_INTERRUPTED = 130


def run_program(program: Callable[[], int]) -> int:
    """Run it and return its exit code. A FlightlogError, or a file that the system refuses, is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files and topics may hold what a terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        return program()
    except FlightlogError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror}. Look after the disk and the permissions of this path")
        return EXIT_UNREADABLE


def _complain(text: str) -> None:
    print(f"flightlog: {' '.join(text.splitlines())}", file=sys.stderr)


def end_when_nobody_reads() -> None:
    """Die quietly when the reader of our output went away (`flightlog info PATH | head -1`), as other tools do.

    Not for programs that talk to Spark: they would die of a socket that Spark closed.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
