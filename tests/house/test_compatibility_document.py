"""docs/compatibility.md: its example runs, and its versions and RocketMQ's names are those of the project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.store.conf.broker_conf import NAMES

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.house.conftest import House

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "compatibility.md").read_text()


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert_clean(tmp_path / "broker-store")


def test_rocketmqs_names_are_those_that_are_taken_over() -> None:
    rows = re.findall(r"^\| `(\w+)`(?: × 20)? \| `(\w+)` \|", DOCUMENT, re.MULTILINE)
    assert len(rows) >= 8
    assert [row for row in rows if NAMES.get(row[0]) != row[1] and row[0] != "commit_log_folders"] == []


def test_the_versions_are_those_that_the_package_asks_for(house: House) -> None:
    project = house.pyproject()["project"]
    extras = project["optional-dependencies"]
    wanted = {"CPython": project["requires-python"].removeprefix(">=")}
    for requirement in (*project["dependencies"], *extras["arrow"]):
        name, _, version = requirement.partition(">=")
        wanted[name] = version
    told = dict(re.findall(r"^\| (\w+)[^|]* \| ([\d.]+) and newer \|", DOCUMENT, re.MULTILINE))
    assert told == wanted
    assert "pyspark>=4.0" in extras["spark"] and "| Spark (extra `spark`) | 4.0 to 4.3 |" in DOCUMENT
