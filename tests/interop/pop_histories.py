"""Random histories of groups that pop from one store, played by a broker, by us, and by both in turn.

A history is made with a model of what must come of it: it says which messages a group holds, and how many must have
come to its retry topic before it goes on. So a broker waits for messages in place of times: its clock is the machine's,
ours is moved by hand, and both go on once the retry topics are as long as the model says. For groups that pop in order,
which have no retry topic, it waits a fixed time (`Wave.pause_ms`).

- "single" has one queue: pops may be smaller than what is there, and get the new messages in order.
- "spread" has three: a pop takes all that is visible, since the order of queues is random on both sides.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import flightlog
from flightlog import Message, PopHandle, StoredMessage, StoreSettings
from flightlog.consume.pop.check_point import CHECK_POINT_TAG, CheckPointKey, read_ack, read_check_point
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.consume.retry.send_back import REVIVED
from flightlog.schedule.timer_checkpoint import read_timer_checkpoint
from flightlog.schedule.timer_request import TIMER_TOPIC
from flightlog.store.disk.config_file import parse_config
from flightlog.store.disk.disk import RealDisk
from flightlog.testing.clock import ManualClock
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support.popped_store import PoppedStore

SIZES = {"segmentSize": 4 << 20, "queueEntries": 20_000, "index": False, "retryFirst": 0}
SETTINGS = StoreSettings(segment_size=4 << 20, queue_file_entries=20_000, key_index=False)
TOPICS = {"single": 1, "spread": 3}
MESSAGES = 12
"""Messages of each topic."""
SHORT_MS, LONG_MS = 4_000, 3_600_000
"""Over before the group goes on; not over in a history."""
AGAIN_MS = SHORT_MS + 5_000
"""By then we have brought back what was invisible for SHORT_MS."""
ALL = 32
NOTHING_FOUND = 210
"""A broker's code (POLLING_TIMEOUT) for a pop that does not wait and finds nothing, or is too old, which ours never
are."""

T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    """One call of a group, and in which of its waves."""

    group: str
    wave: int
    words: tuple[str | int, ...]
    """"pop" COUNT INVISIBLE_MS [ATTEMPT_ID], "limited" MAX_ATTEMPTS, "ack" BODY, "change" BODY INVISIBLE_MS."""

    @property
    def topic(self) -> str:
        return topic_of(self.group)


@dataclass(frozen=True)
class Wave:
    """What the groups do before time passes; what each retry topic holds afterwards; whether a new life begins then."""

    orders: tuple[tuple[Order, ...], ...]
    retries: dict[str, int]
    restarts: bool
    pause_ms: int = 0
    """For how long a broker waits afterwards, besides."""


def topic_of(group: str) -> str:
    return "single" if int(group[1:]) % 2 else "spread"


def is_ordered(group: str) -> bool:
    """See ordered_histories.py."""
    return group.startswith("o")


def retry_topic_of(group: str) -> str:
    return f"%RETRY%{group}_{topic_of(group)}"


@dataclass
class GroupModel:
    """What a group may do next."""

    name: str
    dice: random.Random
    fresh: list[str] = field(default_factory=lambda: [str(number) for number in range(MESSAGES)])
    held: dict[str, int] = field(default_factory=dict)
    """For how long each is invisible."""
    acked: dict[str, int] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    """In the retry topic. Their handles are over."""
    replaced: set[str] = field(default_factory=set)
    """Held, and changed in this wave: the old handle is there, too."""
    attempts: Counter[str] = field(default_factory=Counter)
    retries: int = 0

    def wave(self, number: int) -> tuple[Order, ...]:
        made = [self._pop()] if number == 0 else []
        made += [self._any() for _ in range(self.dice.randrange(3, 7))]
        self._pass_time()
        return tuple(Order(self.name, number, words) for words in made)

    def _any(self) -> tuple[str | int, ...]:
        actions = [self._pop]
        actions += [self._limited] * bool(self.late)
        actions += [self._ack, self._ack, self._change] * bool(self.held)
        actions += [self._ack_late, self._change_late] * bool(self.late)
        actions += [self._ack_again, self._change_acked] * bool(self.acked)
        actions += [self._ack_replaced] * bool(self.replaced)
        return self.dice.choice(actions)()

    def _pick(self, names: Sequence[T]) -> T:
        return self.dice.choice(names)

    def _invisible_ms(self) -> int:
        return self._pick((SHORT_MS, SHORT_MS, LONG_MS))

    def _take(self, count: int, invisible_ms: int, max_attempts: int) -> None:
        taken, self.fresh = self.fresh[:count], self.fresh[count:]
        if len(taken) < count:
            taken += sorted(self.late)
            self.late.clear()
        self.attempts.update(taken)
        self.held.update({body: invisible_ms for body in taken if self.attempts[body] <= max_attempts})

    def _pop(self) -> tuple[str | int, ...]:
        """A small one gets only new messages."""
        is_small = topic_of(self.name) == "single" and self.fresh and self.dice.random() < 0.7
        count = self.dice.randrange(1, len(self.fresh) + 1) if is_small else ALL
        invisible_ms = self._invisible_ms()
        self._take(count, invisible_ms, ALL)
        return "pop", count, invisible_ms

    def _limited(self) -> tuple[str | int, ...]:
        max_attempts = self.dice.randrange(1, 4)
        self._take(ALL, LONG_MS, max_attempts)
        return "limited", max_attempts

    def _ack(self) -> tuple[str | int, ...]:
        body = self._pick(sorted(self.held))
        self.acked[body] = self.held.pop(body)
        return "ack", body

    def _ack_again(self) -> tuple[str | int, ...]:
        return "ack", self._pick(sorted(self.acked))

    def _ack_late(self) -> tuple[str | int, ...]:
        return "ack", self._pick(sorted(self.late))

    def _ack_replaced(self) -> tuple[str | int, ...]:
        return "ack", self._pick(sorted(self.replaced)) + "'"

    def _change(self) -> tuple[str | int, ...]:
        body = self._pick(sorted(self.held))
        self.held[body] = self._invisible_ms()
        self.replaced.add(body)
        return "change", body, self.held[body]

    def _change_acked(self) -> tuple[str | int, ...]:
        """It is to come again."""
        body = self._pick(sorted(self.acked))
        del self.acked[body]
        self.held[body] = self._invisible_ms()
        return "change", body, self.held[body]

    def _change_late(self) -> tuple[str | int, ...]:
        return "change", self._pick(sorted(self.late)), SHORT_MS

    def _pass_time(self) -> None:
        over = {body for body, invisible_ms in self.held.items() if invisible_ms == SHORT_MS}
        for body in over:
            del self.held[body]
        self.late |= over
        self.retries += len(over)
        self.acked = {body: invisible_ms for body, invisible_ms in self.acked.items() if invisible_ms != SHORT_MS}
        self.replaced.clear()


def history(seed: int, groups: int, waves: int, *, restarts: float = 0.0) -> list[Wave]:
    """`restarts`: how likely one is after each wave. In the end every group pops all that is visible."""
    dice = random.Random(seed)
    models = [GroupModel(f"g{number}", random.Random(dice.random())) for number in range(groups)]
    made = []
    for number in range(waves):
        orders = tuple(model.wave(number) for model in models)
        made.append(Wave(orders, {model.name: model.retries for model in models}, dice.random() < restarts))
    made.append(Wave(tuple((Order(model.name, waves, ("pop", ALL, LONG_MS)),) for model in models), {}, False))
    return made


Seen = dict[tuple[str, int], list[Any]]
"""By group and wave: what its calls returned. Of a pop: bodies and attempts, sorted unless the group pops in order."""


def make_store(root: Path) -> None:
    with flightlog.open(root, SETTINGS) as store:
        for topic, queues in TOPICS.items():
            store.create_topic(topic, queues)
            for number in range(MESSAGES):
                store.put(Message(topic, b"%d" % number, queue_id=number % queues, tags="t", keys=f"k{number}"))


@dataclass
class Player:
    """A store, and what its groups have seen so far, on whichever side."""

    root: Path
    seen: Seen = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    """By group and body."""
    missing: set[str] = field(default_factory=set)
    """Retry topics that did not come to what the model says."""
    closed_ms: int = 0
    """When its last broker closed it."""
    slow: set[str] = field(default_factory=set)
    """Groups whose calls to a broker took so long that what they held may have come again meanwhile."""

    def note(self, order: Order, result: Any) -> None:
        self.seen.setdefault((order.group, order.wave), []).append(result)

    def names(self, order: Order) -> str:
        return f"{order.group}.{order.words[1]}"


def last_ms_of(root: Path) -> int:
    """When its last life ended, which is after its last message: a broker takes seconds to stop."""
    with flightlog.open_read_only(root) as view:
        stored_ms = max(m.store_timestamp_ms for key in view.queues() for m in view.read(*key))
    timers = read_timer_checkpoint(RealDisk(), root)
    return stored_ms if timers is None else max(stored_ms, timers.read_time_ms)


def order_infos(root: Path) -> dict[str, dict[str, Any]]:
    """By group: what was popped in order of its one queue."""
    path = root / "config" / "consumerOrderInfo.json"
    table = parse_config(path.read_bytes(), path)["table"] if path.exists() else {}
    return {name.partition("@")[2]: queues["0"] for name, queues in table.items()}


class Ours:
    """We play a part of a history, on a clock of our own, from the end of the life before on."""

    def __init__(self, player: Player) -> None:
        self.player = player
        last_ms = max(last_ms_of(player.root), player.closed_ms)
        self.popped = PoppedStore(player.root, ManualClock(last_ms + 1000), SETTINGS)

    def play(self, steps: Sequence[Order | Wave]) -> int:
        """Returns when it closes the store, by its clock."""
        for group in dict.fromkeys(step.group for step in steps if isinstance(step, Order) and is_ordered(step.group)):
            self.popped.store.update_group(group, is_ordered=True)
        for step in steps:
            if isinstance(step, Wave):
                if step.retries or step.pause_ms:
                    self.popped.pass_time(AGAIN_MS)
                self._put_on_the_wheel()
                if step.restarts:
                    self.popped.reopen()
            else:
                self.player.note(step, self._follow(step))
        self._put_on_the_wheel()
        self.popped.store.close()
        return self.popped.clock.at_ms

    def _put_on_the_wheel(self) -> None:
        """As the store's thread does at once. Timers that are not on the wheel when a broker starts, and whose time is
        over, it delivers in no order: an acknowledgement that arrives before its check point has no effect there, and
        the message comes again."""
        self.popped.run_timers()

    def _follow(self, order: Order) -> Any:
        handles, store = self.player.handles, self.popped.store
        match order.words:
            case ("pop", int(count), int(invisible_ms)):
                return self._receive(order, count, invisible_ms)
            case ("pop", int(count), int(invisible_ms), str(attempt_id)):
                return self._receive(order, count, invisible_ms, attempt_id=attempt_id)
            case ("limited", int(max_attempts)):
                return self._receive(order, ALL, LONG_MS, max_attempts=max_attempts)
        name = self.player.names(order)
        handle = PopHandle(order.group, order.topic, handles[name])
        try:
            if order.words[0] == "ack":
                store.ack(handle)
            else:
                new = store.change_invisible(handle, int(order.words[2]))
                handles[name + "'"], handles[name] = handles[name], new.extra_info
        except ExpiredHandleError:
            return "expired"
        return "done"

    def _receive(self, order: Order, count: int, invisible_ms: int, **options: Any) -> list[tuple[str, int]]:
        got = self.popped.store.receive(order.group, order.topic, count, invisible_ms=invisible_ms, **options)
        for each in got:
            self.player.handles[f"{order.group}.{each.body.decode()}"] = each.handle.extra_info
        return _in_order(order, [(each.body.decode(), each.attempt) for each in got])


def play_broker(rocketmq: RocketMq, player: Player, steps: Sequence[Order | Wave], begin_ms: int = 0) -> None:
    """A broker plays a part of a history, not before `begin_ms`."""
    groups = dict.fromkeys(step.group for step in steps if isinstance(step, Order))
    known = [("orderly" if is_ordered(name) else "group", name) for name in groups]
    lines: list[Sequence[object]] = [("until", begin_ms), *known, ("sleep", 1000)]
    lines += [("handle", name, handle) for name, handle in player.handles.items()]
    for step in steps:
        lines += _waiting(step) if isinstance(step, Wave) else [_words(step)]
    path = player.root.parent / f"{player.root.name}-orders"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in lines))
    with rocketmq.run("pop", {"path": player.root, "orders": path, **SIZES}, 600) as output:
        lines_of = [json.loads(line) for line in output.read_text().splitlines()]
    player.closed_ms = next(line["at"] for line in lines_of if line["type"] == "closed")
    player.missing |= {line["topic"] for line in lines_of if line["type"] == "missing"}
    found = iter([line for line in lines_of if line["type"] != "missing"])
    for step in steps:
        if isinstance(step, Order):
            player.note(step, _result(player, step, found))


def _waiting(wave: Wave) -> Iterator[Sequence[object]]:
    yield from (("arrived", retry_topic_of(group), count) for group, count in wave.retries.items())
    if wave.pause_ms:
        yield "sleep", wave.pause_ms
    if wave.restarts:
        yield ("restart",)


def _words(order: Order) -> Sequence[object]:
    name, *words = order.words
    if name == "pop":
        return name, order.group, order.topic, *words[:2], "*", *words[2:]
    if name == "limited":
        return name, order.group, order.topic, ALL, LONG_MS, "*", *words
    body, *rest = words
    return name, order.group, order.topic, f"{order.group}.{body}", *rest


def _result(player: Player, order: Order, lines: Iterator[Line]) -> Any:
    """What the broker's lines say of an order."""
    got: list[tuple[str, int]] = []
    while (line := next(lines))["type"] == "popped":
        player.handles[line["name"]] = line["handle"]
        got.append((line["body"], line["reconsumeTimes"] + 1))
    assert line["type"] == ("pop" if order.words[0] == "limited" else order.words[0]), (order, line)
    if line["type"] == "pop":
        assert line["code"] in (0, NOTHING_FOUND), (order, line)
        if is_ordered(order.group) and line["counts"]:  # by queue offset, which is the number in the body
            before = {body: int(count) for body, count in re.findall(r"qo0%(\d+) (\d+)", line["counts"])}
            got = [(body, before.get(body, 0) + 1) for body, _ in got]
    _note_time(player, order, line["at"])
    if order.words[0] in ("ack", "change"):
        name = player.names(order)
        if "handle" in line:
            player.handles[name + "'"], player.handles[name] = player.handles[name], line["handle"]
        return {0: "done", -1: "expired"}.get(line["code"], line["code"])
    if order.words[0] == "limited":
        max_attempts = int(order.words[1])
        # By name, as the program goes through them: a broker that is late may have given a message twice.
        for line in islice(lines, 2 * sum(attempt > max_attempts for attempt in dict(got).values())):
            assert line["code"] == 0, (order, line)
        got = [(body, attempt) for body, attempt in got if attempt <= max_attempts]
    return _in_order(order, got)


def _in_order(order: Order, got: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return got if is_ordered(order.group) else sorted(got)


def _note_time(player: Player, order: Order, at_ms: int) -> None:
    began_ms = player.seen.setdefault((order.group, -1 - order.wave), [at_ms])[0]
    if at_ms - began_ms > SHORT_MS // 2:  # the first pop began before its answer came
        player.slow.add(order.group)


def steps_of(waves: Sequence[Wave]) -> list[Order | Wave]:
    steps: list[Order | Wave] = []
    for wave in waves:
        for orders in wave.orders:
            steps += orders
        steps.append(wave)
    return steps


def parts_of(waves: Sequence[Wave], dice: random.Random, count: int) -> list[list[Order | Wave]]:
    """A history in so many parts, cut between two groups: what both hold then is invisible to whoever goes on."""
    steps = steps_of(waves)
    places = [n for n in range(1, len(steps)) if _group(steps[n - 1]) != _group(steps[n])]
    cuts = [0, *sorted(dice.sample(places, count - 1)), len(steps)]
    return [steps[begin:end] for begin, end in pairwise(cuts)]


def _group(step: Order | Wave) -> str:
    return step.group if isinstance(step, Order) else ""


# -- what is on disk in the end


def left_by(root: Path, groups: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By group: offsets, order info, and what there is of retries, dead letters, check points and acks, in no order."""
    with flightlog.open(root, SETTINGS, clock=ManualClock(1 << 42)) as store:
        offsets = {
            name: [store.group_offsets(name, topic) for topic in (topic_of(name), retry_topic_of(name))]
            for name in groups
        }
    found: dict[str, dict[str, Any]] = {name: {"offsets": offsets[name]} for name in groups}
    for name, info in order_infos(root).items():
        if name in groups:
            times = {"popTime": 0, "l": 0, "ot": sorted(info.get("ot", {}))}
            found[name]["order info"] = {**info, "oc": info.get("oc", {}), **times}
    with flightlog.open_read_only(root) as view:
        for name in groups:
            found[name]["retries"] = sorted(map(_fields, view.read(retry_topic_of(name))))
            found[name]["dead"] = sorted(map(_fields, view.read(f"%DLQ%{name}")))
        for name, kind, what in _popped(view):
            found[name].setdefault(kind, Counter())[what] += 1
    return found


def _fields(message: StoredMessage) -> tuple[Any, ...]:
    """All but times, and the names of its properties alone, whose values are of times and places. A broker does not
    write the property of ours."""
    return (
        *(message.body, message.reconsume_times, message.tags, message.keys, message.flag, message.sys_flag),
        tuple(sorted(message.properties.keys() - {REVIVED})),
    )


def _popped(view: flightlog.ReadOnlyStore) -> Iterator[tuple[str, str, Any]]:
    """Every check point and ack that was put, with bodies in place of offsets: retries have no order of their own."""

    def named(key: CheckPointKey, offset: int) -> tuple[str, bytes, int]:
        [message] = view.get(key.topic, key.queue_id, offset, 1).messages
        return key.topic, message.body, message.reconsume_times

    for message in view.read(TIMER_TOPIC):
        if message.tags == CHECK_POINT_TAG:
            point = read_check_point(message.body)
            taken = tuple(sorted(named(point.key, offset) for offset in point.offsets))
            yield point.key.group, "check points", (taken, point.invisible_ms)
        else:
            ack = read_ack(message.body, "store")
            yield from ((ack.key.group, "acks", named(ack.key, offset)) for offset in ack.offsets)
