"""`flightlog groups`, `group reset`, `group delete`, `dead-letters redrive`: shown first, done with --write alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import ExponentialRetryPolicy
from flightlog.store.errors import InvalidArgumentError
from flightlog.tools.app import app

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

EACH = 300
"""Messages of a queue, of which there are three."""


@pytest.fixture
def path(clean_store: Path) -> Path:
    """A store with two groups: one that was at 100 in each queue, one with settings alone."""
    with flightlog.open(clean_store) as store:
        for queue_id in range(3):
            store.commit_offset("billing", "orders", queue_id, 100)
        store.update_group("mail", retry_max_times=2, is_enabled=False, retry_policy=ExponentialRetryPolicy())
        store.update_group("TOOLS_CONSUMER", retry_max_times=2)
    return clean_store


def offsets(path: Path) -> dict[int, int]:
    with flightlog.open(path) as store:
        return store.group_offsets("billing", "orders")


def test_groups_are_listed(cli: Cli, path: Path) -> None:
    finished = cli("groups", path)
    assert finished.code == 0
    lines = [line.split() for line in finished.out.splitlines() if line.strip()]
    assert ["600", "17", "default", "enabled", "billing", "orders"] in lines
    assert any(line[:2] == ["0", "3"] and "disabled" in line and line[-1] == "mail" for line in lines)
    assert "TOOLS_CONSUMER" not in finished.out and "2 groups, lag 600" in finished.out
    assert "TOOLS_CONSUMER" in cli("groups", path, "--system").out
    found = {state["name"]: state for state in json.loads(cli("groups", path, "--json").out)}
    assert set(found) == {"billing", "mail"} and found["billing"]["lag"] == 600
    assert found["mail"]["settings"]["retry_policy"]["multiplier"] == 2


def test_a_group_is_reset_when_asked(cli: Cli, path: Path) -> None:
    finished = cli("group", "reset", path, "billing", "orders", "--to", "last")
    assert finished.code == 0 and "to be reset: 3 queues. Reset them with --write" in finished.out
    assert ["0", "100", "300"] in [line.split() for line in finished.out.splitlines()]
    assert offsets(path) == dict.fromkeys(range(3), 100)
    finished = cli("group", "reset", path, "billing", "orders", "--to", "last", "--write")
    assert finished.code == 0 and "reset: 3 queues" in finished.out and offsets(path) == dict.fromkeys(range(3), EACH)
    assert cli("group", "reset", path, "billing", "orders", "--to", "7", "--queue", "1", "--write").code == 0
    assert (
        cli("group", "reset", path, "billing", "orders", "--to", "1999-01-01T00:00:00Z", "--queue=2", "--write").code
        == 0
    )
    assert offsets(path) == {0: EACH, 1: 7, 2: 0}


@pytest.mark.parametrize(("to", "offset"), [("1h", 0), ("1999-01-01T00:00:00+02:00", 0), ("999999w", 0), ("0s", EACH)])
def test_a_group_is_reset_to_a_time_or_so_long_ago(
    path: Path, to: str, offset: int, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["group", "reset", str(path), "billing", "orders", "--to", to, "--json"], standalone_mode=False)
    assert [each["offset"] for each in json.loads(capsys.readouterr().out)["queues"]] == [offset] * 3


@pytest.mark.parametrize("to", ["1999-01-01T00:00:00", "2 moons", "-1", ""])
def test_a_group_is_not_reset_to_what_is_no_place(path: Path, to: str) -> None:
    with pytest.raises(InvalidArgumentError, match="expected first, last, a queue offset, a time .*ago: 90s"):
        app(["group", "reset", str(path), "billing", "orders", "--to", to], standalone_mode=False)


def test_a_group_is_deleted_when_asked(cli: Cli, path: Path) -> None:
    finished = cli("group", "delete", path, "billing")
    assert finished.code == 0
    assert finished.out == "to be deleted: group billing: offsets in 1 topic, lag 600. Delete it with --write\n"
    assert offsets(path)
    finished = cli("group", "delete", path, "billing", "--write")
    assert finished.code == 0 and "deleted: group billing" in finished.out and not offsets(path)
    finished = cli("group", "delete", path, "billing", "--write")
    assert finished.code == 2 and "no consumer group 'billing'" in finished.err


def test_dead_letters_are_redriven_when_asked(cli: Cli, path: Path) -> None:
    with flightlog.open(path) as store:
        store.create_topic("quarantine", 1)
        for number in range(3):
            properties = {"RETRY_TOPIC": "orders", "amount": str(100 * number)}
            store.put(flightlog.Message("%DLQ%billing", b"x", properties=properties))
    finished = cli("dead-letters", "redrive", path, "billing")
    assert finished.code == 0 and "to be redriven: 3 dead letters. Redrive them with --write" in finished.out
    assert ["3", "orders"] in [line.split() for line in finished.out.splitlines()]
    finished = cli(
        "dead-letters", "redrive", path, "billing", "--where", "amount > 100", "--to", "quarantine", "--write"
    )
    assert finished.code == 0 and "redriven: 1 dead letter\n" in finished.out
    assert "to be redriven: 2 dead letters." in cli("dead-letters", "redrive", path, "billing").out
    assert "redriven: 2 dead letters\n" in cli("dead-letters", "redrive", path, "billing", "--write").out
    assert "redriven: 0 dead letters\n" in cli("dead-letters", "redrive", path, "billing", "--write").out
    with flightlog.open_read_only(path) as view:
        assert view.queue_bounds("quarantine", 0) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["group", "reset", "billing", "orders", "--to", "middle"], "first, last, a queue offset"),
        (["group", "reset", "billing", "orders", "--to", "2024-05-01T12:00:00"], "no time zone"),
        (["group", "reset", "billing", "ordres", "--to", "first"], "ordres"),
        (["dead-letters", "redrive", "billing", "--where", "amount LIKE 'a'"], "RocketMQ's filters have no LIKE"),
        (["dead-letters", "redrive", "billing", "--to", "%DLQ%billing"], "another topic"),
        (["group", "delete", "nobody"], "no consumer group 'nobody'"),
    ],
)
def test_wrong_calls_are_told(cli: Cli, path: Path, arguments: list[str], says: str) -> None:
    command, what, *rest = arguments
    finished = cli(command, what, path, *rest)
    assert finished.code == 2 and says in finished.err


def test_a_writer_keeps_changes_out_but_not_looks(cli: Cli, path: Path) -> None:
    with flightlog.open(path):
        assert cli("groups", path).code == 0
        assert cli("group", "reset", path, "billing", "orders", "--to", "first").code == 0
        finished = cli("group", "reset", path, "billing", "orders", "--to", "first", "--write")
        assert finished.code == 4 and "writer" in finished.err
    assert offsets(path) == dict.fromkeys(range(3), 100)
