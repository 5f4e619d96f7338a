"""`help(flightlog.StoreSettings)` tells every setting, with its unit."""

from __future__ import annotations

import dataclasses

import flightlog


def test_every_setting_is_told_by_help() -> None:
    told = flightlog.StoreSettings.__doc__ or ""
    assert told.startswith("Settings of one open store.")
    missing = [
        field.name for field in dataclasses.fields(flightlog.StoreSettings) if f"\n    {field.name}: " not in told
    ]
    assert not missing
    assert "segment_size: int | None = None\n        Bytes of a commit-log segment" in told
    assert max(map(len, told.splitlines())) <= 130


def test_help_ends_with_the_last_setting() -> None:
    assert "def " not in (flightlog.StoreSettings.__doc__ or "")
