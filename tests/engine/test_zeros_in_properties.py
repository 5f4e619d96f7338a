"""Zeros in properties: recovery takes a sector of them for one that a power cut lost, so no put may store that.

Without the refusal, an acknowledged message was cut from the log when its writer was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.store.errors import InvalidMessageError

Put = Callable[[Store, str, str], object]
ZEROS = {
    "at the end": ("a", "v" + "\0" * 512),
    "many": ("a", "\0" * 5000 + "v"),
    "at the beginning of the text": ("\0a", "v"),
}
PUTS: dict[str, Put] = {
    "put": lambda store, name, value: store.put(Message("t", b"x", properties={name: value})),
    "put_many": lambda store, name, value: store.put_many([Message("t", b"x", properties={name: value})]),
    "append": lambda store, name, value: store.queue("t", 0).append(b"x", properties={name: value}),
    "append_columns": lambda store, name, value: store.append_columns(
        "t", {"value": [b"x"], "properties": [{name: value}]}
    ),
}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
@pytest.mark.parametrize(("name", "value"), ZEROS.values(), ids=ZEROS)
def test_properties_that_look_like_a_lost_sector_are_refused(name: str, value: str, put: Put, tmp_path: Path) -> None:
    with (
        flightlog.open(tmp_path, StoreSettings.small()) as store,
        pytest.raises(InvalidMessageError, match="lost a sector"),
    ):
        put(store, name, value)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
def test_fewer_zeros_are_stored_as_they_are(put: Put, tmp_path: Path, assert_clean: Callable[[Path], object]) -> None:
    value = "\0" * 511 + "v" + "\0" * 511
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        put(store, "a", value)
        [message] = store.read("t")
        assert message.properties["a"] == value
    assert_clean(tmp_path)
