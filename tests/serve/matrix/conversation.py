"""One run of a client's program: it goes through scenarios and says what it saw."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from flightlog.tests.serve.matrix.scenarios import BY_NAME

RUN_S, LOOK_S = 900.0, 0.05
NO_KEYS = ("-", "-")
LINES_MAX = 40


class MatrixServer(Protocol):
    """A server that clients are tried at."""

    @property
    def address(self) -> str: ...

    authority: Path
    """The certificate that clients may trust."""

    def restart(self) -> None:
        """End it in an orderly way and start it again, at the same address with the same messages."""

    def has_dead_letter(self, group: str) -> bool: ...


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario."""

    kind: str
    """saw, lacks or failed"""
    text: str

    @property
    def is_ok(self) -> bool:
        return self.kind == "saw"


def run_program(
    command: Sequence[str],
    server: MatrixServer,
    kind: str,
    names: Sequence[str],
    keys: tuple[str, str] = NO_KEYS,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> dict[str, Outcome]:
    """By scenario what came of it. `kind` is tls or plain, `folder` where the program runs."""
    words = [*command, server.address, kind, *keys, *names]
    env = {**os.environ, **(environment or {})}
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=folder
        ) as process,
    ):
        alarm = threading.Timer(RUN_S, process.kill)
        alarm.start()
        try:
            found = _listen(process, server)
            code = process.wait()
        finally:
            alarm.cancel()
            process.kill()
        errors.seek(0)
        said = "\n".join(errors.read().decode(errors="replace").splitlines()[-LINES_MAX:])
    ended = f"the program ended with {code}: {said}"
    return {name: found.get(name) or Outcome("failed", ended) for name in names}


def assert_all_seen(found: Mapping[str, Outcome]) -> None:
    missed = {name: outcome for name, outcome in found.items() if not outcome.is_ok}
    assert not missed, missed


def _listen(process: subprocess.Popen[str], server: MatrixServer) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    assert process.stdout is not None
    assert process.stdin is not None
    for line in process.stdout:
        match line.rstrip("\n").split("\t", 2):
            case ["restart", _]:
                server.restart()
            case ["dead", group]:
                _wait_for_dead_letter(server, group)
            case ["saw", name, text] if not BY_NAME[name].is_seen(text):
                found[name] = Outcome("failed", f"saw {text!r}, expected {BY_NAME[name].saw!r}")
                continue
            case ["saw" | "lacks" | "failed" as kind, name, text]:
                found[name] = Outcome(kind, text)
                continue
            case _:
                continue  # what the client itself writes there
        print("done", file=process.stdin, flush=True)
    return found


def _wait_for_dead_letter(server: MatrixServer, group: str) -> None:
    until_s = time.monotonic() + RUN_S
    while not server.has_dead_letter(group):
        if time.monotonic() > until_s:
            raise TimeoutError(f"group {group} has no dead letter after {RUN_S:.0f} s")
        time.sleep(LOOK_S)
