"""The tree of errors that `store/errors.py` draws is the one that there is, and all of it stands on the face.

Every module of the package is imported for that, in a process of its own, so that no room can have an error that is
forgotten here. A module whose extra is not installed is passed over.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

import flightlog
from flightlog.store import errors

LOOK_AROUND = """
import importlib, json, pkgutil
import flightlog

lacking = {}
for module in pkgutil.walk_packages(flightlog.__path__, "flightlog.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as e:
        lacking[module.name] = e.name
    except flightlog.MissingExtraError as e:
        lacking[module.name] = f"extra {e.extra}"

def below(cls):
    for one in cls.__subclasses__():
        yield one
        yield from below(one)

found = [
    (one.__module__, one.__qualname__, one.__bases__[0].__name__, getattr(flightlog, one.__name__, None) is one)
    for one in below(flightlog.FlightlogError)
]
print(json.dumps([found, lacking]))
"""
OF_PROGRAMS = ("flightlog.tools.", "flightlog.testing.")
"""Errors of these rooms end a command, a benchmark or a test: no call of the library raises them."""


class Found(NamedTuple):
    module: str
    name: str
    above: str
    is_on_the_face: bool


def drawn() -> dict[str, str]:
    """Error -> the one that it hangs on, by the picture."""
    found, above = dict[str, str](), dict[int, str]()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([ │├└─]+)(\w+Error)\b", line)
        if match:
            depth = len(match[1])
            above[depth] = match[2]
            if depth - 4 in above:
                found[match[2]] = above[depth - 4]
    return found


@pytest.fixture(scope="module")
def there() -> list[Found]:
    command = [sys.executable, "-P", "-c", LOOK_AROUND]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, lacking = json.loads(output.splitlines()[-1])
    ours = {module: name for module, name in lacking.items() if name.startswith("flightlog")}
    assert not ours, "modules that cannot be imported though nothing is lacking"
    return [one for one in (Found(*one) for one in found) if not one.module.startswith(OF_PROGRAMS)]


def test_the_tree_that_is_drawn_is_the_one_that_there_is(there: list[Found]) -> None:
    assert drawn() == {one.name: one.above for one in there}


def test_every_error_is_on_the_face(there: list[Found]) -> None:
    missing = [f"{one.module}.{one.name}" for one in there if not one.is_on_the_face]
    assert not missing
    assert {one.name for one in there} <= set(flightlog.__all__)


def test_errors_of_every_room_that_has_some_are_looked_at(there: list[Found]) -> None:
    """Else a walk that ends early would find everything in order."""
    rooms = {one.module.split(".")[1] for one in there}
    assert rooms == {"store", "index", "engine", "produce", "consume", "serve", "spark"}
