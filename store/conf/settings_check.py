"""What a setting may be. The type says the most: a whole number has a range, a switch is True or False."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from ..errors import InvalidMessageError, InvalidSettingsError
from ..format.host import encode_host

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Ranges = Mapping[str, tuple[int, int]]
BROKER_NAME = re.compile(r"[%|A-Za-z0-9_.-]{1,127}")
DELAY_LEVEL = re.compile(r"[0-9]{1,9}[smhd]")


def check_fields(settings: DataclassInstance, ranges: Ranges) -> None:
    """Check what the type of a field tells: an `int` lies in its range, a `bool` is one, a `str` is text.

    None is allowed where the type says so. Raises InvalidSettingsError. A whole number without a range is a mistake of
    ours (KeyError).
    """
    for field in fields(settings):
        name, value, kind = field.name, getattr(settings, field.name), str(field.type)
        if value is None and kind.endswith(" | None"):
            continue
        match kind.removesuffix(" | None"):
            case "int":
                low, high = ranges[name]
                if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                    raise InvalidSettingsError(f"{name}={value!r}: expected a whole number from {low} to {high}")
            case "bool" if not isinstance(value, bool):
                raise InvalidSettingsError(f"{name}={value!r}: expected True or False")
            case "str" if not isinstance(value, str):
                raise InvalidSettingsError(f"{name}={value!r}: expected text")


def check_folders(settings: DataclassInstance, *names: str) -> None:
    """Tuples of paths, none of them twice."""
    for name in names:
        folders = getattr(settings, name)
        if not isinstance(folders, tuple) or not all(
            isinstance(f, str) and f.strip() and "\0" not in f for f in folders
        ):
            raise InvalidSettingsError(
                f"{name}={folders!r}: expected a tuple of paths, as in ('/disk1/log', '/disk2/log')"
            )
        if len(set(folders)) < len(folders):
            raise InvalidSettingsError(f"{name}={folders!r}: expected each folder once")


def check_texts(name: str, texts: object) -> None:
    """A tuple of texts."""
    if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
        raise InvalidSettingsError(f"{name}={texts!r}: expected a tuple of texts")


def check_host(name: str, host: object) -> None:
    """An address in digits and a port."""
    if not isinstance(host, tuple) or len(host) != 2:
        raise InvalidSettingsError(f"{name}={host!r}: expected an address and a port, as in ('10.0.0.1', 10911)")
    try:
        if isinstance(host[1], bool):
            raise TypeError("port True or False: expected a whole number from 0 to 65535")
        encode_host(*host)
    except (InvalidMessageError, TypeError) as e:
        raise InvalidSettingsError(f"{name}={host!r}: {e}") from e


def check_broker_name(name: str, text: str) -> None:
    """No blanks: it is one word of a handle."""
    if BROKER_NAME.fullmatch(text) is None:
        raise InvalidSettingsError(f"{name}={text!r}: expected 1 to 127 of the characters A-Z a-z 0-9 % | _ . -")


def check_delay_levels(name: str, text: str) -> None:
    """At least one delay such as 10s; s, m, h and d are the units."""
    words = text.split()
    if not words:
        raise InvalidSettingsError(f"{name}={text!r}: expected at least one delay, as in '1s 5s 10s'")
    for word in words:
        if DELAY_LEVEL.fullmatch(word) is None:
            raise InvalidSettingsError(
                f"{name}={text!r}: delay level {word!r}: expected a number and one of s, m, h, d, as in 10s"
            )


def check_hours(name: str, text: str) -> None:
    """Hours of the day, separated by ";"."""
    words = text.split(";")
    if not any(words) or not all(re.fullmatch("[0-9]{1,2}", word) and int(word) < 24 for word in words if word):
        raise InvalidSettingsError(f"{name}={text!r}: expected hours from 0 to 23, as in '04' or '04;22'")
