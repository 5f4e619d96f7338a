"""Options of a read. `parse_options` checks them once and returns one frozen object.

    path, paths      the folders that hold the stores' commitlog/; what load() is given (stores.py)
    storageOptions   a JSON object for the library that reads a remote store (storages.py)
    settings         a broker.conf with the settings that the stores are opened with (store_settings.py)
    table            messages (default): a row a message; queues: a row a queue (schema.py has its columns), for which
                     only the paths, columns, includeInternal and the choice of queues count
    columns          the columns to read, with commas between; all by default, and every one costs time. `store` is
                     one of them by default where path can name several stores
    includeInternal  true: prepared and rollback records and RocketMQ's internal topics too
    includeHeaders   true: a column `headers`, the properties as Kafka's source has headers
    decompress       true: bodies as they were before compression; what cannot be decompressed is damage
    onCorrupt        fail (default): a damaged record fails the query; skip: it is left out, counted and logged; rows:
                     it is a row that says so in a column `_corrupt`
    tags             RocketMQ's expression: `a || b` are the messages with the tag a or the tag b, by its text and not
                     only by its hash; `*` or nothing are all messages
    pushDownPredicate
                     true: the query's filters leave out what need not be read (plan/filters.py)
    splitBytes       about how many bytes of the log one task reads, of queues in a batch a quarter; 256 MiB by default
    minPartitions    the least number of tasks, if there are as many records; 1 by default

Queues, offsets and times are chosen by the options of Spark's Kafka source:

    subscribe           topics with commas between
    subscribePattern    a regular expression that a topic's whole name matches
    assign              {"orders": [0, 1]}: queues by topic
    startingOffsets     earliest (a batch's default), latest (a stream's), or {"orders": {"0": 23, "1": -2}}: an offset
                        for each queue that is read; -2 is its first message, -1 behind its last one
    endingOffsets       latest (default), or JSON likewise; for batch queries
    startingTimestamp, endingTimestamp
                        a store time in ms: from the first message at or after it, up to the first at or after it
                        (of everything: what was stored between these times, which may be nothing)
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
                        the same for each queue: {"orders": {"0": 1700000000000, "1": 1700000000000}}
    startingOffsetsByTimestampStrategy
                        error (default): a queue without a message that late fails the query; latest: nothing of it
    failOnDataLoss      true (default): offsets that the store holds no more fail the query; false: logged, passed over
    maxOffsetsPerTrigger
                        about how many messages a batch of a stream holds at most; all that there are by default

Names are taken in any case, as everywhere in Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from ...engine.columns.schema import COLUMNS, Column
from ...index.filter.tag_filter import tag_filter
from ...store.errors import InvalidSettingsError, UsageError
from ...store.format.light_queues import LIGHT_PREFIX, is_light
from ...store.format.record import INT32_MAX, INT64_MAX
from ...store.queue_offsets import QueueKey
from ..schema import CORRUPT, HEADERS, QUEUE_COLUMNS, STORE, find_column, find_queue_column, require_corrupt
from .bounds import GREATEST, LEAST, NO_BOUNDS, Bounds, Span, is_internal
from .stores import StoreLocation, parse_stores

NAMES = (
    *("path", "paths", "storageOptions", "settings", "table", "columns", "includeInternal", "includeHeaders"),
    *("decompress", "onCorrupt", "splitBytes", "minPartitions", "tags", "pushDownPredicate"),
    *("subscribe", "subscribePattern", "assign"),
    *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    *("failOnDataLoss", "maxOffsetsPerTrigger"),
)
OF_QUEUES = ("path", "paths", "storageOptions", "settings", "table", "columns", "includeInternal")
"""Options of the table of queues, beside those in WAYS."""
WAYS = ("subscribe", "subscribePattern", "assign")

DEFAULT_SPLIT_BYTES = 256 << 20  # smaller tasks cost more than they spread, larger ones leave cores idle
MIN_SPLIT_BYTES = 4096
MAX_PARTITIONS = 999_999_999
WHOLE_NUMBER = re.compile("[0-9]{1,19}")

EARLIEST, LATEST = -2, -1
"""Special offsets: the first message, and behind the last one."""

OnCorrupt = Literal["fail", "skip", "rows"]
Unmatched = Literal["error", "latest"]
Table = Literal["messages", "queues"]
TABLES: Sequence[Table] = ("messages", "queues")
ON_CORRUPT: Sequence[OnCorrupt] = ("fail", "skip", "rows")
UNMATCHED: Sequence[Unmatched] = ("error", "latest")

Given = Mapping[str, str]
"""Options by their names in lower case."""
Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each queue."""

    option: str
    """The name of the option, for errors."""
    by_queue: Mapping[QueueKey, int]


@dataclass(frozen=True, slots=True)
class Times:
    """A store time in ms, for each queue or one for all: the first message at or after it."""

    option: str
    by_queue: Mapping[QueueKey, int] | None
    for_all_ms: int = 0

    def of(self, key: QueueKey) -> int:
        return self.for_all_ms if self.by_queue is None else self.by_queue[key]


Position = Literal["earliest", "latest"] | Offsets | Times


@dataclass(frozen=True, slots=True)
class Topics:
    """`subscribe`: all queues of these topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """`subscribePattern`: all queues of the topics whose whole name matches."""

    regex: str

    def matches(self, topic: str) -> bool:
        if is_light(topic) and not self.regex.startswith(LIGHT_PREFIX):
            return False  # light queues repeat messages of other topics: .* does not mean them
        return re.fullmatch(self.regex, topic) is not None


@dataclass(frozen=True, slots=True)
class Assigned:
    """`assign`: these queues."""

    keys: frozenset[QueueKey]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, checked. Pickled to workers."""

    stores: tuple[StoreLocation, ...] = ()
    """One at least, as parsed."""
    shows_store: bool = False
    """Whether `store` is one of all columns."""
    table: Table = "messages"
    columns: tuple[str, ...] = ()
    """Empty: all."""
    include_internal: bool = False
    include_headers: bool = False
    decompress: bool = False
    on_corrupt: OnCorrupt = "fail"
    bounds: Bounds = NO_BOUNDS
    """Messages outside of them are not read. Filters that Spark pushes are added."""
    pushes_filters: bool = False
    split_bytes: int = DEFAULT_SPLIT_BYTES
    min_partitions: int = 1
    subscription: Topics | Pattern | Assigned | None = None
    """None: everything."""
    starting: Position | None = None
    """None: earliest for a batch, latest for a stream."""
    ending: Position | None = None
    unmatched: Unmatched = "error"
    """What to do with a queue without a message at or after its starting time."""
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns that these options add."""
        choices = ((HEADERS, self.include_headers), (CORRUPT, self.on_corrupt == "rows"))
        return tuple(column for column, is_added in choices if is_added)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of a query that names none, in order."""
        of_table = COLUMNS if self.table == "messages" else QUEUE_COLUMNS
        return (*of_table, *((STORE,) if self.shows_store else ()), *self.added)

    def find(self, name: str) -> Column:
        """The column of this name. Raises InvalidSettingsError for another name."""
        return find_column(name, self.added) if self.table == "messages" else find_queue_column(name)

    @property
    def reads_the_log(self) -> bool:
        """Whether the log is scanned: no queue is selected, and no offset or time is given per queue."""
        return self.subscription is None and not any(
            isinstance(position, Offsets) or (isinstance(position, Times) and position.by_queue is not None)
            for position in (self.starting, self.ending)
        )

    @property
    def says_what_is_there(self) -> bool:
        """Whether it names topics, queues, offsets or times, which are refused if they do not exist."""
        positions = () if self.reads_the_log else (self.starting, self.ending)
        names_places = any(isinstance(position, Offsets | Times) for position in positions)
        return names_places or isinstance(self.subscription, Topics | Assigned)

    def takes(self, key: QueueKey) -> bool:
        """Whether a queue of this name is read, if it exists."""
        topic, _ = key
        match self.subscription:
            case Topics(names):
                return topic in names
            case Assigned(keys):
                return key in keys
            case Pattern():
                return self.subscription.matches(topic) and self._shows(topic)
        return not is_light(topic) and self._shows(topic)

    def _shows(self, topic: str) -> bool:
        return self.include_internal or not is_internal(topic.encode("utf-8", "surrogatepass"))

    def require_batch(self) -> None:
        """Raises InvalidSettingsError for options that are valid only for a stream."""
        _refuse_edge(self.starting, "startingOffsets", "latest", LATEST, "a batch query cannot start at the latest")
        _refuse_edge(self.ending, "endingOffsets", "earliest", EARLIEST, "a batch query cannot end at the earliest")

    def require_stream(self) -> None:
        """Raises InvalidSettingsError for options that are valid only for a batch."""
        if self.table == "queues":
            raise InvalidSettingsError("table=queues: the table of queues is no stream; read it with spark.read")
        if self.ending is not None:
            raise InvalidSettingsError("endingOffsets, endingTimestamp: a stream has no end; expected none of them")


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options as Spark hands them over. Raises InvalidSettingsError with what was expected."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - {name.lower() for name in NAMES})
    if unknown:
        raise InvalidSettingsError(f"option {unknown[0]!r}: unknown; expected one of {', '.join(NAMES)}")
    table = _one_of(given, "table", TABLES, "messages")
    _refuse_beside_queues(given, table)
    parsed = ReadOptions(
        table=table,
        include_internal=_flag(given, "includeInternal"),
        subscription=_subscription(given),
        starting=_position(given, "starting"),
        ending=_position(given, "ending"),
        unmatched=_one_of(given, "startingOffsetsByTimestampStrategy", UNMATCHED, "error"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", "true"),
    )
    _refuse_internal(parsed)
    stores, shows_store = parse_stores(given)
    parsed = replace(
        parsed,
        stores=stores,
        shows_store=shows_store,
        include_headers=_flag(given, "includeHeaders"),
        decompress=_flag(given, "decompress"),
        on_corrupt=_one_of(given, "onCorrupt", ON_CORRUPT, "fail"),
        bounds=_bounds(given, parsed),
        pushes_filters=_flag(given, "pushDownPredicate"),
        split_bytes=_number(
            *(given, "splitBytes", f"a whole number of bytes, {MIN_SPLIT_BYTES} or more", MIN_SPLIT_BYTES)
        )
        or DEFAULT_SPLIT_BYTES,
        min_partitions=_number(given, "minPartitions", "a number of tasks, 1 or more", 1, MAX_PARTITIONS) or 1,
        max_offsets_per_trigger=_number(given, "maxOffsetsPerTrigger", "a number of messages, 1 or more", 1),
    )
    return replace(parsed, columns=_columns(given["columns"], parsed)) if "columns" in given else parsed


def _refuse_beside_queues(given: Given, table: Table) -> None:
    taken = {name.lower() for name in (*OF_QUEUES, *WAYS)}
    for name in NAMES:
        if table == "queues" and name.lower() in given.keys() - taken:
            raise InvalidSettingsError(f"option {name!r} beside table=queues: it is about messages; leave it out")


def _flag(given: Given, name: str, default: str = "false") -> bool:
    return _one_of(given, name, ("true", "false"), default) == "true"


def _one_of(given: Given, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
    text = given.get(name.lower(), default)
    for choice in choices:
        if text.strip().lower() == choice:
            return choice
    *others, last = choices
    raise InvalidSettingsError(f"{name}={text!r}: expected {', '.join(others)} or {last}")


def _number(given: Given, name: str, expected: str, least: int, most: int = INT64_MAX) -> int | None:
    """None where the option is not given."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not WHOLE_NUMBER.fullmatch(text.strip()) or not least <= int(text) <= most:
        raise InvalidSettingsError(f"{name}={text!r}: expected {expected}")
    return int(text)


def _columns(text: str, parsed: ReadOptions) -> tuple[str, ...]:
    names = tuple(parsed.find(name.strip()).name for name in text.split(","))
    if len(set(names)) != len(names):
        raise InvalidSettingsError(f"columns={text!r}: a column is named twice")
    require_corrupt(names, parsed.added)
    return names


def _bounds(given: Given, parsed: ReadOptions) -> Bounds:
    """The bounds that options give: tags, and times if the log is scanned."""
    try:
        wanted = tag_filter(given.get("tags"))
    except UsageError as e:
        raise InvalidSettingsError(str(e)) from e
    times = (p.for_all_ms if isinstance(p, Times) else None for p in (parsed.starting, parsed.ending))
    since, before = times if parsed.reads_the_log else (None, None)
    stored = Span(LEAST if since is None else since, GREATEST + 1 if before is None else before)
    return Bounds(tags=None if wanted is None else wanted.tags, store_times_ms=stored)


def _subscription(given: Given) -> Topics | Pattern | Assigned | None:
    named = [name for name in WAYS if name.lower() in given]
    if len(named) > 1:
        raise InvalidSettingsError(f"options {' and '.join(named)}: expected one of {', '.join(WAYS)}, or none of them")
    if not named:
        return None
    text = given[named[0].lower()]
    match named[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
            if not names:
                raise InvalidSettingsError(f"subscribe={text!r}: names no topic; expected topics with commas between")
            return Topics(names)
        case "subscribePattern":
            return _pattern(text)
    return _assigned(text)


def _pattern(text: str) -> Pattern:
    if not text.strip():
        raise InvalidSettingsError(f"subscribePattern={text!r}: empty; expected a regular expression")
    try:
        re.compile(text)
    except re.error as e:
        raise InvalidSettingsError(f"subscribePattern={text!r}: no regular expression of Python's: {e}") from e
    return Pattern(text)


def _assigned(text: str) -> Assigned:
    expected = 'expected queue ids by topic, as {"orders": [0, 1]}'
    keys: set[QueueKey] = set()
    for topic, ids in _json("assign", text, expected).items():
        if not isinstance(ids, list) or not all(_is_number(each) and 0 <= each <= INT32_MAX for each in ids):
            raise InvalidSettingsError(f"assign={text!r}: topic {topic!r} has {ids!r}; {expected}")
        keys |= {(topic, queue_id) for queue_id in ids}
    if not keys:
        raise InvalidSettingsError(f"assign={text!r}: names no queue; {expected}")
    return Assigned(frozenset(keys))


def _position(given: Given, side: str) -> Position | None:
    """The start or end position. If several options are given, the one that Spark's Kafka source prefers counts."""
    name = f"{side}Timestamp"
    time_ms = _number(given, name, "a store time in ms since 1970, as 1700000000000", 0)
    if time_ms is not None:
        return Times(f"{name}={given[name.lower()]}", None, time_ms)
    name = f"{side}OffsetsByTimestamp"
    if (text := given.get(name.lower())) is not None:
        return Times(name, _by_queue(name, text, 0, 1_700_000_000_000))
    name = f"{side}Offsets"
    if (text := given.get(name.lower())) is None:
        return None
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    return Offsets(name, _by_queue(name, text, EARLIEST, 23, edges=True))


def _by_queue(name: str, text: str, least: int, example: int, *, edges: bool = False) -> dict[QueueKey, int]:
    words = "earliest, latest, or a number" if edges else "a number"
    expected = f'expected {words} for each queue, as {{"orders": {{"0": {example}, "1": {example}}}}}'
    values: dict[QueueKey, int] = {}
    for topic, by_id in _json(name, text, expected).items():
        if not isinstance(by_id, dict):
            raise InvalidSettingsError(f"{name}={text!r}: topic {topic!r} has {by_id!r}; {expected}")
        for queue_id, value in by_id.items():
            is_id = WHOLE_NUMBER.fullmatch(queue_id) is not None and int(queue_id) <= INT32_MAX
            if not is_id or not _is_number(value) or not least <= value <= INT64_MAX:
                raise InvalidSettingsError(f"{name}={text!r}: queue {queue_id!r} has {value!r}; {expected}")
            values[topic, int(queue_id)] = value
    return values


def _json(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as e:
        raise InvalidSettingsError(f"{name}={text!r}: {expected}; this is no JSON: {e}") from e
    if not isinstance(found, dict):
        raise InvalidSettingsError(f"{name}={text!r}: {expected}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_internal(parsed: ReadOptions) -> None:
    """Refuse internal topics by name without includeInternal: the query would return nothing."""
    match parsed.subscription:
        case Topics(names):
            asked = set(names)
        case Assigned(keys):
            asked = {topic for topic, _ in keys}
        case _:
            return
    for topic in sorted(asked):
        if not parsed.include_internal and not is_light(topic) and is_internal(topic.encode()):
            raise InvalidSettingsError(
                f"topic {topic!r}: RocketMQ keeps it for itself; expected includeInternal=true beside it"
            )


def _refuse_edge(position: Position | None, name: str, edge: str, number: int, why: str) -> None:
    if position == edge:
        raise InvalidSettingsError(f"{name}={edge!r}: {why} offset; expected another, or JSON")
    if isinstance(position, Offsets):
        for (topic, queue_id), offset in sorted(position.by_queue.items()):
            if offset == number:
                raise InvalidSettingsError(f"{name}: topic {topic} queue {queue_id} has {number}: {why} offset")
