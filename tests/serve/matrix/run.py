"""Try RocketMQ's official clients at the server, and print a table: `make clients`.

`python tests/serve/matrix/run.py FOLDER [--only java,go-5.1.4] [--scenarios normal,push] [--against JARS]`. Clients are
fetched into FOLDER. With --against, the same programs run at RocketMQ's name server, broker and proxy, which are in the
folder JARS; the differences are printed, and those of what remoting clients and mqadmin print (`--only remoting`).
Exits with 1 if something failed at our server.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from flightlog.tests.serve.matrix.conversation import MatrixServer, Outcome, run_program
from flightlog.tests.serve.matrix.languages import CLIENTS, Client, ClientMissingError
from flightlog.tests.serve.matrix.real_proxy import proxy_server
from flightlog.tests.serve.matrix.remoting_programs import remoting_differences
from flightlog.tests.serve.matrix.scenarios import OPEN, SCENARIOS
from flightlog.tests.serve.matrix.servers import ACCESS_KEY, SECRET_KEY, our_server
from flightlog.tests.support.rocketmq_node import trusting

KINDS = ("plain", "tls")
SHOWN = {"saw": "ok", "lacks": "lacks", "failed": "FAILED"}

VARIABLE = re.compile(r"(request-id|clientId)=[\w@-]+")
"""What differs between any two refusals."""

Row = dict[str, Outcome]
Rows = dict[tuple[str, str, str], Row]
Serving = Callable[..., AbstractContextManager[MatrixServer]]
Attempt = Callable[[Sequence[str], str, Sequence[str], Path], Row]


def at_ours(command: Sequence[str], kind: str, names: Sequence[str], folder: Path) -> Row:
    return at_both(our_server, command, kind, names, folder)


def at_proxy(jars: Path) -> Attempt:
    def attempt(command: Sequence[str], kind: str, names: Sequence[str], folder: Path) -> Row:
        return at_both(partial(proxy_server, jars), command, kind, names, folder)

    return attempt


def at_both(serving: Serving, command: Sequence[str], kind: str, names: Sequence[str], folder: Path) -> Row:
    """At a server without access control what needs none, and the rest at one with it."""
    found: Row = {}
    open_names = [name for name in names if name in OPEN]
    if open_names:
        with serving(folder / "open", has_acl=False) as server:
            found |= run_program(
                command, server, kind, open_names, environment=trusting(server.authority), folder=folder
            )
    if len(open_names) < len(names):
        with serving(folder / "acl", has_acl=True) as server:
            for name, secret in (("accepted", SECRET_KEY), ("refused", "else")):
                if name in names:
                    keys = ACCESS_KEY, secret
                    found |= run_program(command, server, kind, [name], keys, trusting(server.authority), folder)
    return found


def tried(clients: Sequence[Client], folder: Path, names: Sequence[str], attempt: Attempt) -> Rows:
    """What came of all scenarios, by client, version and transport."""
    rows: Rows = {}
    for client in clients:
        home = folder / f"{client.language.lower()}-{client.version}"
        home.mkdir(parents=True, exist_ok=True)
        try:
            command = client.fetch(client.version, home)
        except ClientMissingError as e:
            rows[client.language, client.version, "-"] = dict.fromkeys(names, Outcome("failed", str(e)))
            continue
        for kind in KINDS:
            begun_s = time.monotonic()
            with TemporaryDirectory() as work:
                try:
                    found = attempt(command, kind, names, Path(work))
                except TimeoutError as e:
                    found = dict.fromkeys(names, Outcome("failed", str(e)))
            row = rows[client.language, client.version, kind] = {name: found[name] for name in names}
            took_s = time.monotonic() - begun_s
            shown = " ".join(SHOWN[outcome.kind] for outcome in row.values())
            print(f"{client.language} {client.version} {kind}: {shown} ({took_s:.0f} s)", flush=True)
    return rows


def table(rows: Rows, names: Sequence[str]) -> str:
    """In Markdown."""
    lines = [f"| client | | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for (language, version, kind), row in rows.items():
        lines.append(f"| {language} {version} | {kind} | {' | '.join(SHOWN[each.kind] for each in row.values())} |")
    return "\n".join(lines)


def details(rows: Rows) -> str:
    """Why it is not ok, and the texts of refusals."""
    lines = []
    for key, row in rows.items():
        alike: dict[Outcome, list[str]] = {}
        for name, outcome in row.items():
            if not outcome.is_ok or name == "refused":
                alike.setdefault(outcome, []).append(name)
        lines += [f"{' '.join(key)}: {', '.join(names)}: {it.kind} {it.text}" for it, names in alike.items()]
    return "\n".join(lines)


def differences(ours: Rows, theirs: Rows) -> str:
    lines = []
    for key, row in theirs.items():
        for name, outcome in row.items():
            here = ours[key][name]
            is_other_text = VARIABLE.sub("", outcome.text) != VARIABLE.sub("", here.text)
            if outcome.kind != here.kind or (outcome.is_ok and is_other_text):
                lines.append(f"{' '.join(key)}: {name}\n  here     {here}\n  RocketMQ {outcome}")
    return "\n".join(lines) or "no differences"


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("folder", type=Path)
    words.add_argument("--only", default="")
    words.add_argument("--scenarios", default="")
    words.add_argument("--against", type=Path)
    given = words.parse_args()
    only = {word for word in given.only.lower().split(",") if word}
    clients = [
        client
        for client in CLIENTS
        if not only or only & {client.language.lower(), f"{client.language}-{client.version}".lower()}
    ]
    names = [each.name for each in SCENARIOS if not given.scenarios or each.name in given.scenarios.split(",")]
    ours = tried(clients, given.folder.resolve(), names, at_ours)
    print(f"\n{table(ours, names)}\n\n{details(ours)}", flush=True)
    if given.against is not None:
        theirs = tried(clients, given.folder.resolve(), names, at_proxy(given.against.resolve()))
        print(f"\nBeside RocketMQ:\n{table(theirs, names)}\n{differences(ours, theirs)}", flush=True)
        if not only or "remoting" in only:
            with TemporaryDirectory() as work:
                print(f"\nRemoting beside RocketMQ:\n{remoting_differences(given.against.resolve(), Path(work))}")
    return 1 if any(outcome.kind == "failed" for row in ours.values() for outcome in row.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
