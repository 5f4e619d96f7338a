"""How a command ends: with an exit code, and with a one-line message for errors that its user can fix.

    0     done
    1     done, and something was found (`verify`, `handover check`)
    2     the call was wrong
    3     a store cannot be read or written
    4     refused, to protect a store: another writer has it open
    5     stdout cannot be written: a full disk, or no stdout at all
    130   interrupted by the keyboard
    141   the reader of stdout went away (`flightlog info PATH | head -1`): no message, as from a SIGPIPE

An unexpected exception keeps its traceback: it is a bug, and the traceback is the report.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..store.errors import EXIT_UNREADABLE, FlightlogError

EXIT_FINDINGS = 1
EXIT_OUTPUT = 5
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141

if TYPE_CHECKING:
    from collections.abc import Buffer


class OutputError(Exception):
    """Stdout cannot be written. Not an OSError: neither typer nor rich may take it for one of theirs."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"stdout: {cause.strerror}. The output is incomplete")
        self.exit_code = EXIT_NO_READER if isinstance(cause, BrokenPipeError) else EXIT_OUTPUT


class _Stdout(io.FileIO):
    """The descriptor of stdout; a failed write raises OutputError, and what follows it goes to /dev/null."""

    def write(self, data: Buffer, /) -> Any:
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            raise OutputError(error) from error


def run_program(program: Callable[[], int]) -> int:
    """Run it and return its exit code. A FlightlogError, a file that the system refuses, or a stdout that cannot be
    written is one line on stderr."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        _complain("stdout: it is closed, expected a terminal, a pipe or a file")
        return EXIT_OUTPUT
    _raise_output_errors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files and topics may hold what a terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = program()
        sys.stdout.flush()  # here: at the interpreter's exit, an error could only become a traceback
        return code
    except FlightlogError as error:
        _complain(str(error))
        return error.exit_code
    except OutputError as error:
        if error.exit_code != EXIT_NO_READER:
            _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror}. Look after the disk and the permissions of this path")
        return EXIT_UNREADABLE


def _raise_output_errors() -> None:
    """Have every failed write to stdout raise OutputError, whoever prints."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or isinstance(getattr(stdout.buffer, "raw", None), _Stdout):
        return
    try:
        descriptor = stdout.fileno()
    except OSError:  # a stream in memory
        return
    stdout.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(descriptor, "w", closefd=False)),
        encoding=stdout.encoding,
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


def _complain(text: str) -> None:
    with suppress(OSError):  # there is no third place to say it
        print(f"flightlog: {' '.join(text.splitlines())}", file=sys.stderr, flush=True)
