"""docs/messaging.md: every example of how queues are shared out prints what the document says below it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "messaging.md"
[SECTION] = re.findall(r"^## Sharing the queues out\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
EXAMPLES = dict(re.findall(r"^### ([^\n]+)\n\n(```python\n.*?^```)\n", SECTION, re.MULTILINE | re.DOTALL))


def test_each_part_but_two_has_an_example() -> None:
    headlines = re.findall(r"^### (.*)", SECTION, re.MULTILINE)
    assert [name for name in headlines if name not in EXAMPLES] == ["What a rebalance costs", "If you know Kafka"]
    assert SECTION.count("```python") == SECTION.count("```text") == len(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_is_told(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    assert_clean: AssertClean,
) -> None:
    part = SECTION[SECTION.index(f"### {name}\n") :]
    found = re.match(r"### [^\n]+\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    opened: list[flightlog.Store] = []
    open_store = flightlog.open

    def noted(path: str) -> flightlog.Store:
        opened.append(open_store(path, flightlog.StoreSettings.small()))
        return opened[-1]

    monkeypatch.setattr(flightlog, "open", noted)
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]
    for store in opened:
        store.close()
    for store in opened:
        assert_clean(store.path)
