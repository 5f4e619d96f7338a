"""A plugin of pytest for tests/load/run.py: which tests of a file failed, and how many passed; and more time for each.

The file that FLIGHTLOG_LOAD_OUTCOMES names gets a line a test as soon as it begins and one as soon as it ends, so that
a process that dies in the middle says where. FLIGHTLOG_LOAD_TIMES_LONGER is what the limits of time are multiplied by.
"""

from __future__ import annotations

import json
import os

import pytest


def _say(test: str, outcome: str) -> None:
    with open(os.environ["FLIGHTLOG_LOAD_OUTCOMES"], "a") as file:
        file.write(json.dumps((test, outcome)) + "\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times = int(os.environ.get("FLIGHTLOG_LOAD_TIMES_LONGER", "1"))
    for item in items if times > 1 else []:
        marked = item.get_closest_marker("timeout")
        limit = float(marked.args[0] if marked else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(times * limit), append=False)


def pytest_runtest_logstart(nodeid: str) -> None:
    _say(nodeid, "began")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed or report.when == "call" or report.skipped:
        _say(report.nodeid, report.outcome)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _say(report.nodeid, report.outcome)
