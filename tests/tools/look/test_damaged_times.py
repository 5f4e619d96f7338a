"""Commands that search by time, beside damaged records: they ended with an error at the first that a search met."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.testing import ManualClock
from flightlog.tools.app import app
from flightlog.tools.records.fields import iso_time

START_MS = 1_700_000_000_000
COUNT = 60
DAMAGED = {19, 29, 30, 31, 44}
"""A search over 60 messages looks at 30 first."""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A message a minute; of some the beginning of the record is zeros."""
    path, clock, places = tmp_path / "store", ManualClock(START_MS), []
    with flightlog.open(path, StoreSettings.small(), clock=clock) as store:
        for number in range(COUNT):
            clock.at_ms = START_MS + 60_000 * number
            places.append(store.put(Message("orders", b"%d" % number, queue_id=0)).physical_offset)
    with open(next((path / "commitlog").iterdir()), "r+b") as log:
        for number in DAMAGED:
            log.seek(places[number])
            log.write(bytes(8))
    return path


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        code = app([*command.split(), str(path), *arguments], standalone_mode=False) or 0
        return code, *capsys.readouterr()

    return run


def at(number: int) -> str:
    return iso_time(START_MS + 60_000 * number)


@pytest.mark.parametrize(("first", "end"), [(30, 60), (0, 30), (19, 45), (20, 29), (18, 32), (25, 35), (45, 60)])
def test_cat_prints_what_is_intact_and_tells_what_is_left_out(run: Run, first: int, end: int) -> None:
    code, out, err = run("cat", "--since", at(first), "--until", at(end), "--form", "raw")
    assert [int(body) for body in out.split()] == [each for each in range(first, end) if each not in DAMAGED]
    between = len(DAMAGED & set(range(first, end)))
    if between:
        assert code == 1 and "left out; `flightlog verify` says where" in err
        assert int(err.split(": ")[2].split()[0]) >= between


def test_tail_and_stat_and_groups_go_on(run: Run) -> None:
    code, out, err = run("tail", "-n", "3", "--until", at(46), "--form", "raw")
    assert (code, out.split()) == (1, ["42", "43", "45"]) and "left out" in err
    # A damaged record counts as stored when the next intact one was: 29, 30 and 31 are among them.
    code, out, err = run("stat", "--since", at(32), "--until", at(40), "--json")
    assert (code, err, [each["messages"] for each in json.loads(out)]) == (0, "", [11])
    code, out, _ = run("group reset", "billing", "orders", "--to", at(35), "--json")
    assert (code, json.loads(out)["queues"][0]["offset"]) == (0, 35)
    assert run("stats")[0] == 0


def test_a_group_goes_on_at_the_damaged_message_and_not_behind_it(run: Run) -> None:
    code, out, _ = run("group reset", "billing", "orders", "--to", at(30), "--json")
    assert (code, json.loads(out)["queues"][0]["offset"]) == (0, 29)
