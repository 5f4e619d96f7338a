"""Rules that hold for every command: examples that work, plain text in a pipe, times with a zone; completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
import typer.rich_utils

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import InvalidArgumentError
from flightlog.tools.app import app
from flightlog.tools.commands.examples import EXAMPLES
from flightlog.tools.transfer.export_messages import export_messages

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

PARSED_ONLY = ("bench ", "demo", "serve", "stats", "metrics --listen", "tail store -f", "replay orders.jsonl")
"""Beginnings of examples that take long, never end, or need a server or a terminal."""
EXIT_CODES = {"diff": {0, 1}, "handover check": {0, 1}}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What moves a terminal's cursor or colours it; a progress bar is made of it."""
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(.{0,6})")
ZONE = re.compile(r"Z|[ ]UTC|[+-]\d\d:\d\d")


def assert_plain(text: str) -> None:
    """What a pipe gets: no colour, no progress; and every time has its zone."""
    assert not CONTROL.search(text), text
    for found in TIME.finditer(text):
        assert ZONE.match(found[1]), found[0]


def leaves() -> dict[str, Any]:
    """Every command by its name."""
    found: dict[str, Any] = {}

    def add(command: Any, names: tuple[str, ...]) -> None:
        below = getattr(command, "commands", None)
        if below is None:
            found[" ".join(names)] = command
            return
        for name, each in below.items():
            add(each, (*names, name))

    add(typer.main.get_command(app), ())
    return found


def is_time(option: Any) -> bool:
    """Whether an option takes a time: its help has an example of one."""
    text = getattr(option, "help", None) or ""
    return "2026-05-01T" in text or "forms as for --since" in text


COMMANDS = leaves()


def arguments(example: str) -> list[str]:
    """What the command gets; a pipe or a redirection behind it belongs to the shell."""
    words = shlex.split(example)
    assert words[0] == "flightlog", example
    return list(takewhile(lambda word: word not in ("|", ">"), words[1:]))


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that examples are typed in. Only copied."""
    folder = tmp_path_factory.mktemp("shop")
    settings = StoreSettings.small(deliver_delayed=False)
    with flightlog.open(folder / "store", settings) as store:
        for number in range(12):
            store.put(
                Message("orders", b"%d" % number, keys=f"order-{number}", properties={"amount": str(20 * number)})
            )
        store.put(Message("orders", b"later", uniq_key="order-1").deliver_after_ms(86_400_000))
        store.put(Message("orders", b"much later", delay_level=18))
        store.commit_offset("billing", "orders", 0, 5)
        store.update_group("billing", retry_max_times=0)
        store.put(Message("%DLQ%billing", b"given up", properties={"RETRY_TOPIC": "orders"}))
    with flightlog.open_read_only(folder / "store") as view:
        export_messages(view, folder / "orders.jsonl")
    flightlog.copy_store(folder / "store", folder / "other-store")
    (folder / "broker.conf").write_text("fileReservedTime=48\n")
    return folder


@pytest.fixture
def in_shop(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where the test runs."""
    folder = Path(shutil.copytree(shop, tmp_path / "shop"))
    monkeypatch.chdir(folder)
    return folder


def run(call: list[str]) -> int:
    return app(call, standalone_mode=False) or 0


def test_every_command_has_two_examples() -> None:
    missing, unknown = COMMANDS.keys() - EXAMPLES.keys(), EXAMPLES.keys() - COMMANDS.keys()
    assert not missing, f"add two examples to tools/commands/examples.py for: {sorted(missing)}"
    assert not unknown, f"no such commands: {sorted(unknown)}"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_examples_of_a_command_work(
    in_shop: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 200)
    monkeypatch.setenv("TERM", "xterm-256color")
    with pytest.raises(SystemExit):
        app([*name.split(), "--help"])
    shown = capsys.readouterr()
    assert_plain(shown.out + shown.err)
    lines = [line.strip() for line in shown.out.splitlines()]
    words = name.split()
    if name == "diff":
        flightlog.copy_store("store", "backup")
    for example in EXAMPLES[name]:
        assert example in lines, f"--help does not show: {example}"
        call = arguments(example)
        assert call[: len(words)] == words
        if example.removeprefix("flightlog ").startswith(PARSED_ONLY):
            COMMANDS[name].make_context(name, call[len(words) :])
            continue
        assert run(call) in EXIT_CODES.get(name, {0}), example
        if "parquet" not in example:
            assert_plain("".join(capsys.readouterr()))


JSON_CALLS = {
    "clean": "--idle-minutes 0 --staging staging",
    "dead-letters list": "billing",
    "delays list": "",
    "diff": "other-store",
    "trim": "--keep-bytes 0",
    "verify": "",
}
"""Arguments behind PATH with which more is printed than by the first example."""
ELSEWHERE = {"demo", "serve"}
"""They take long, or run until they are ended: test_demo.py and serve/test_command.py look at their JSON."""
WITH_FORMS = {"cat", "get", "head", "query", "tail"}
"""They have `--form json`; its fields are those of records/fields.py."""
JSON_DOCUMENT = Path(__file__).resolve().parents[2] / "docs/tools-json.md"


def documented_keys() -> dict[str, set[str]]:
    """Command -> the paths of its keys: `topics[].name`; `*` is any name."""
    found: dict[str, set[str]] = {}
    for section in JSON_DOCUMENT.read_text().split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        found[name.strip("`")] = {key for row in rows for key in re.findall("`([^`]+)`", row)}
    return found


def keys_of(found: Any, prefix: str = "") -> set[str]:
    """The paths of all keys."""
    if isinstance(found, list):
        return {key for each in found for key in keys_of(each, f"{prefix}[]")}
    if not isinstance(found, dict):
        return set()
    start = f"{prefix}." if prefix else ""
    return {key for name, each in found.items() for key in (start + name, *keys_of(each, start + name))}


def assert_units(found: Any, key: str = "") -> None:
    """Times in ms and sizes in bytes are numbers, all other times are ISO 8601 with their zone."""
    if isinstance(found, dict | list):
        for name, each in found.items() if isinstance(found, dict) else [(key, each) for each in found]:
            assert_units(each, name)
    elif found is not None and (key.endswith(("_ms", "_size")) or key == "size"):
        assert isinstance(found, int | float), (key, found)
    elif found is not None and (key.endswith(("_time", "_at")) or key in ("time", "begin")):
        assert datetime.fromisoformat(found).tzinfo is not None, (key, found)


def test_every_command_with_results_has_json() -> None:
    without = {name for name, each in COMMANDS.items() if "as_json" not in {option.name for option in each.params}}
    assert without == WITH_FORMS
    printed = {name for name in COMMANDS.keys() - without - {"serve"} if not name.startswith("bench ")}
    assert documented_keys().keys() == printed, "docs/tools-json.md has a section for each"


@pytest.mark.parametrize("name", sorted(documented_keys().keys() - ELSEWHERE))
def test_json_has_the_documented_keys(in_shop: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (in_shop / "staging" / "job").mkdir(parents=True)
    call = [*name.split(), "store", *JSON_CALLS[name].split()] if name in JSON_CALLS else arguments(EXAMPLES[name][0])
    call = [each for each in call if each not in ("--json", "--watch", "--write")]
    assert run([*call, "--json"]) in EXIT_CODES.get(name, {0})
    found = json.loads(capsys.readouterr().out)
    assert_units(found)
    printed, documented = keys_of(found), documented_keys()[name]
    patterns = {key: re.compile(re.escape(key).replace(r"\*", r"[^.\[\]]+")) for key in documented}
    unknown = {key for key in printed if not any(each.fullmatch(key) for each in patterns.values())}
    assert not unknown, f"printed, not in docs/tools-json.md: {sorted(unknown)}"
    shown = {key for key, each in patterns.items() if any(map(each.fullmatch, printed))}

    def beside(key: str) -> set[str]:
        return {each for each in documented if each.rpartition(".")[0] == key.rpartition(".")[0]}

    # Of an object in a list that is empty here, or that is null, nothing is printed.
    hidden = {key for key in documented - shown if "." not in key or beside(key) & shown}
    assert not hidden, f"in docs/tools-json.md, not printed: {sorted(hidden)}"


TIMES = {(name, option.opts[0]) for name in COMMANDS for option in COMMANDS[name].params if is_time(option)}
"""Commands and their options that take a time."""


@pytest.mark.parametrize(("name", "option"), sorted(TIMES))
def test_times_are_typed_with_a_zone_or_as_how_long_ago(in_shop: Path, name: str, option: str) -> None:
    words = [each for each in arguments(EXAMPLES[name][0]) if each not in ("--before", "3d", "--write")]
    words = {"import": ["import", "new-store", "store"], "tail": ["tail", "store"]}.get(name, words)
    with pytest.raises(InvalidArgumentError, match=f"{option}.*this one has no time zone"):
        run([*words, option, "2026-05-01T12:00:00"])
    assert run([*words, option, "2h"]) in (0, 1)


def test_every_option_with_a_time_says_what_it_takes() -> None:
    assert {name for name, option in TIMES if option == "--since"} >= {"cat", "export", "head", "query", "stat", "tail"}
    named = {(name, each) for name in COMMANDS for option in COMMANDS[name].params for each in option.opts}
    assert {(name, each) for name, each in named if each in ("--since", "--until", "--before")} <= TIMES
    assert {("group reset", "--to")} <= TIMES


def test_the_shell_completes_commands(cli: Cli) -> None:
    environment = {
        **os.environ,
        "_FLIGHTLOG_COMPLETE": "complete_bash",
        "COMP_WORDS": "flightlog ver",
        "COMP_CWORD": "1",
    }
    found = subprocess.run(
        [sys.executable, "-P", "-m", "flightlog"], env=environment, capture_output=True, text=True, check=False
    )
    assert found.stdout.split() == ["verify"] and not found.stderr
    shown = cli("--show-completion", "zsh", env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert shown.code == 0 and "compdef" in shown.out and "_FLIGHTLOG_COMPLETE" in shown.out
