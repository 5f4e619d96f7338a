"""The conditions that disable the fast path of an open log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from ..native.fast_path_protocol import INTENT, Intent

T = TypeVar("T")


class Condition(Generic[T]):
    """A field of FastPathConditions: None while the condition does not hold. It is set and cleared in one step of the
    interpreter, so that neither a thread nor an interrupt sees half of it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, conditions: None, owner: type) -> Condition[T]: ...
    @overload
    def __get__(self, conditions: FastPathConditions, owner: type) -> T | None: ...
    def __get__(self, conditions: FastPathConditions | None, owner: type) -> Condition[T] | T | None:
        if conditions is None:
            return self
        value: T | None = conditions.active.get(self._name)
        return value

    def __set__(self, conditions: FastPathConditions, value: T | None) -> None:
        if value is None:
            conditions.active.pop(self._name, None)
        else:
            conditions.active[self._name] = value


class FastPathConditions:
    """Each of these disables the fast path while it holds. Thread-safe, without a lock.

    In every call the fast path checks only whether `active` is empty.
    """

    intent = Condition[Intent]()
    """The append under way on the slow path, or an interrupted append on either path."""
    slow_path = Condition[bool]()
    """A thread appends on the slow path, or an append there was interrupted."""
    poison = Condition[BaseException]()
    """The error that ended puts and syncs until the store is reopened."""
    closed = Condition[bool]()
    """The log takes no more appends."""
    handle = Condition[str]()
    """The handle of the store is "closed", or the copy of one in a process that was "forked"."""
    setting = Condition[str]()
    """The name of a setting that gives every put a meaning which the fast path does not know."""
    pre_put_hook = Condition[object]()
    """A hook that must see every message."""
    disk_is_full = Condition[float]()
    """Per cent of the disk in use."""
    dispatch_stalled = Condition[Path]()
    """The file of a queue or an index that has no room."""

    def __init__(self) -> None:
        self.active: dict[Any, Any] = {}
        """The conditions that hold, by name; and errors that are not judged yet."""

    def poison_once(self, cause: BaseException) -> None:
        """Set the poison unless it is set: the first cause counts."""
        self.active.setdefault("poison", cause)

    def suspect(self, error: BaseException, outer: BaseException | None) -> None:
        """A failed sync may be behind this error; `outer` is what its caller was handling before."""
        self.active[error] = error, outer

    def suspects(self) -> list[tuple[BaseException, BaseException | None]]:
        """The errors that are not judged yet."""
        return [value for name, value in list(self.active.items()) if isinstance(name, BaseException)]

    def acquit(self, error: BaseException) -> None:
        """Remove an error that was judged."""
        self.active.pop(error, None)


assert FastPathConditions.intent._name == INTENT
