"""The options with which commands select messages: the same for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from ...engine.read.selection import Selection
from ...index.filter.sql_filter import sql
from ...store.errors import InvalidArgumentError
from ..typed_values import parse_time_ms

PANEL = "Which messages"


def _option(*names: str, text: str, **details: Any) -> Any:
    return typer.Option(*names, help=text, show_default=False, rich_help_panel=PANEL, **details)


def selection_of(
    topic: Annotated[
        list[str] | None, _option("--topic", "-t", text="Of this topic; may be repeated. None: all but RocketMQ's own.")
    ] = None,
    queue: Annotated[int | None, _option("--queue", text="Of the queues with this id.", min=0)] = None,
    tags: Annotated[str | None, _option("--tags", text='With one of these tags: "A || B".')] = None,
    where: Annotated[str | None, _option("--where", text='A SQL92 filter on properties: "amount > 100".')] = None,
    key: Annotated[str | None, _option("--key", text="With this key or uniq key, by the key index.")] = None,
    since: Annotated[
        str | None, _option("--since", text="Stored at or after: 2026-05-01T12:00:00Z, or 2h for two hours ago.")
    ] = None,
    until: Annotated[str | None, _option("--until", text="Stored before; forms as for --since.")] = None,
    first: Annotated[int | None, _option("--from", text="From this queue offset on.", min=0)] = None,
    end: Annotated[int | None, _option("--to", text="Below this queue offset.", min=0)] = None,
    body: Annotated[str | None, _option("--body", text="In whose body this regular expression is found.")] = None,
    system: Annotated[bool, _option("--system", text="Also RocketMQ's own topics.")] = False,
) -> Selection:
    """Raises InvalidArgumentError, InvalidFilterError."""
    return Selection(
        topics=tuple(topic or ()),
        queue_id=queue,
        tags=tags,
        filter=None if where is None else sql(where),
        key=key,
        begin_ms=None if since is None else parse_time_ms("--since", since),
        end_ms=None if until is None else parse_time_ms("--until", until),
        first_offset=first,
        end_offset=end,
        body=None if body is None else _pattern(body),
        include_system=system,
    )


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode(errors="surrogateescape"))
    except re.error as e:
        raise InvalidArgumentError("--body", text, f"a regular expression ({e})") from None


def with_selection(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `selection_of` in place of its parameter `selection`, but for those that it has
    itself."""
    own = signature(command, eval_str=True)
    options = [
        each for each in signature(selection_of, eval_str=True).parameters.values() if each.name not in own.parameters
    ]

    @wraps(command)
    def call(**given: Any) -> None:
        chosen = {option.name: given.pop(option.name) for option in options}
        command(**given, selection=selection_of(**chosen))

    kept = [each for each in own.parameters.values() if each.name != "selection"]
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*kept, *options)]
    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    del call.__wrapped__  # whose signature is another
    return call
