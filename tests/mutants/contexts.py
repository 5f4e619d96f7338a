"""A plugin of pytest for tests/mutants/run.py: which test runs which lines, and how long each test takes.

Coverage gets one context a test. The file that FLIGHTLOG_MUTANTS_TESTS names gets the seconds of every test that
passed; one that fails or skips here finds no mutant.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

seconds: dict[str, float] = {}
not_passed: set[str] = set()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    assert measured is not None, "run by `coverage run`"
    measured.switch_context(item.nodeid)
    yield
    measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {test: took for test, took in seconds.items() if test not in not_passed}
    Path(os.environ["FLIGHTLOG_MUTANTS_TESTS"]).write_text(json.dumps(passed))
