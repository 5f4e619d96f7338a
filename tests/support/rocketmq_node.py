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
FETCH_S = 300.0
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


def node_command() -> list[str]:
    """The program with its client; a server and scenarios are to follow."""
    fetch_node_client()
    return ["node", str(PROGRAM)]


def trusting(authority: Path) -> dict[str, str]:
    """The environment of a client that trusts this certificate: of gRPC's own library and Node.js, and of Rust."""
    return {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority), "SSL_CERT_FILE": str(authority)}
