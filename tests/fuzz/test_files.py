"""Every reader of files on bytes of any kind: sound inputs, those that once broke it, and many drawn by lot.

`make fuzz` looks for more of them, guided by coverage.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support import fuzzing

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

TARGETS = sorted(path.stem for path in Path(__file__).with_name("targets").glob("*.py"))


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_known(name: str) -> None:
    target = fuzzing.load_target(name)
    assert target.seeds()
    for data in (b"", *target.seeds(), *fuzzing.corpus(name)):
        fuzzing.attempt(target, data)


@pytest.mark.ci
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_drawn(name: str, scale: Scale) -> None:
    fuzzing.run_drawn(name, int(os.environ["FLIGHTLOG_SEED"]), scale.pick(ci=500, full=100_000))


def test_a_broken_promise_is_told_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    target = fuzzing.load_target("checkpoint")
    monkeypatch.setattr(target, "decode_checkpoint", lambda data: None)
    with pytest.raises(fuzzing.BrokenPromiseError, match=r"checkpoint: AssertionError.*input b"):
        fuzzing.run_drawn("checkpoint", 0, 50)
