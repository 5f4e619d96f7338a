"""docs/messaging.md: what it says of producers is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import flightlog

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "messaging.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    [section] = re.findall(r"^## Producers.*?\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    opened: list[flightlog.MessageStore] = []
    open_store = flightlog.open

    def noted(*arguments: Any, **options: Any) -> flightlog.MessageStore:
        opened.append(open_store(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(flightlog, "open", noted)
    for folder in "abc":
        (tmp_path / folder).mkdir()
    names: dict[str, Any] = {}
    for example in re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        exec(example, names)
    for store in opened:
        store.close()
    queues, offsets = zip(*(map(int, line.split()) for line in capsys.readouterr().out.splitlines()), strict=True)
    assert len(set(queues)) == 1 and offsets == (0, 1, 2)
    assert len(opened) == 4
    for store in opened:
        with flightlog.open_read_only(store.path) as view:
            assert view.verify().is_clean
