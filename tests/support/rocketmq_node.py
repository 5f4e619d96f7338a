"""RocketMQ's own Node.js client, which npm brings: `tests/serve/node`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "serve" / "node"
PROGRAM = FOLDER / "clients.js"
FETCH_S, RUN_S = 300.0, 300.0
FETCHES = 2
"""A registry that does not answer once may answer the next time."""


class NodeClientMissingError(Exception):
    """This machine lacks what it takes to run the client; the message names it."""


@cache
def fetch_node_client() -> Path:
    """The folder of modules with what `package-lock.json` says. Raises NodeClientMissingError."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NodeClientMissingError(f"no {program} here")
    modules, wanted = FOLDER / "node_modules", (FOLDER / "package-lock.json").read_bytes()
    modules.mkdir(exist_ok=True)
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        fetched = modules / ".fetched"
        if not fetched.is_file() or fetched.read_bytes() != wanted:
            _fetch()
            fetched.write_bytes(wanted)
    finally:
        os.close(folder)
    return modules


def _fetch() -> None:
    """No package's own scripts run."""
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    said = ""
    for _ in range(FETCHES):
        try:
            found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            said = f"no answer in {FETCH_S:.0f} s"
            continue
        if found.returncode == 0:
            return
        said = f"{found.stdout[-2000:]}{found.stderr[-2000:]}"
    raise NodeClientMissingError(f"npm could not fetch it, {FETCHES} times: {said}")


def run_node_clients(address: str, kind: str, *keys: str, authority: Path | None = None) -> list[str]:
    """What the program says about the server at this address; `kind` is tls or plain, `keys` an access key and its
    secret, `authority` the certificate that the client trusts."""
    fetch_node_client()
    trusted = {} if authority is None else {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority)}
    command = ["node", str(PROGRAM), address, kind, *keys]
    found = subprocess.run(command, env={**os.environ, **trusted}, capture_output=True, text=True, timeout=RUN_S)
    assert found.returncode == 0, f"{found.stdout[-4000:]}\n{found.stderr[-4000:]}"
    return found.stdout.splitlines()
