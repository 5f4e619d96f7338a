"""RocketMQ's Python clients, of any version, at a server: what tests/serve/matrix/scenarios.py describes.

Runs in an environment with the client alone. Arguments: ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|- SCENARIO...
"""

from __future__ import annotations

import inspect
import os
import queue
import sys
import time
from collections.abc import Callable
from typing import Any

import rocketmq
from rocketmq.grpc_protocol import FilterType

PATIENCE_S = 60.0
INVISIBLE_S = 30
GROUPS = ("order-1", "order-2")
ENDPOINTS, KIND, ACCESS_KEY, SECRET_KEY, *NAMES = sys.argv[1:]
OPENED: list[Any] = []


class LacksError(Exception):
    """This version of the client has no such thing."""


def say(*words: str) -> None:
    print("\t".join(words).replace("\n", " "), flush=True)


def ask(*words: str) -> None:
    """Ask the other side for something, and wait until it is done."""
    say(*words)
    sys.stdin.readline()


def configuration() -> Any:
    keys = () if ACCESS_KEY == "-" else (ACCESS_KEY, SECRET_KEY)
    if not keys and "ak" in inspect.signature(rocketmq.Credentials.__init__).parameters:
        keys = ("", "")
    return rocketmq.ClientConfiguration(ENDPOINTS, rocketmq.Credentials(*keys), request_timeout=30)


def started(kind: type, *arguments: Any, **more: Any) -> Any:
    if KIND == "tls":
        if "tls_enable" not in inspect.signature(kind).parameters:
            raise LacksError(f"TLS in {kind.__name__}")
        more["tls_enable"] = True
    made = kind(configuration(), *arguments, **more)
    made.startup()
    OPENED.append(made)
    return made


def producer(topic: str, check: Callable[[Any], Any] | None = None) -> Any:
    if check is None:
        return started(rocketmq.Producer, (topic,))
    checker = type("Checker", (rocketmq.TransactionChecker,), {"check": lambda _, message: check(message)})()
    return started(rocketmq.Producer, (topic,), checker)


def simple(group: str, topic: str, expression: Any = None) -> Any:
    made = started(rocketmq.SimpleConsumer, group, await_duration=5)
    made.subscribe(topic, expression)
    return made


def push(group: str, topic: str, consume: Callable[[Any], Any]) -> Any:
    if not hasattr(rocketmq, "PushConsumer"):
        raise LacksError("push consumers")
    listener = type("Listener", (rocketmq.MessageListener,), {"consume": lambda _, message: consume(message)})()
    return started(rocketmq.PushConsumer, group, listener, {topic: rocketmq.FilterExpression()})


def message(topic: str, body: str, **fields: Any) -> Any:
    made = rocketmq.Message()
    made.topic, made.body = topic, body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def receive(consumer: Any, count: int) -> list[Any]:
    """So many messages, acknowledged, in the order in which they came."""
    found: list[Any] = []
    ends_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        if time.monotonic() > ends_s:
            raise TimeoutError(f"only {bodies(found)} came in {PATIENCE_S:.0f} s")
        for view in consumer.receive(32, INVISIBLE_S):
            consumer.ack(view)
            found.append(view)
    return found


def bodies(views: list[Any]) -> str:
    return " ".join(sorted(view.body.decode() for view in views))


def in_groups(views: list[Any]) -> str:
    """For each message group the numbers in the order in which they came, each at its first time."""
    found: dict[str, dict[str, None]] = {}
    for view in views:
        group, number = view.body.decode().split()
        found.setdefault(group, {})[number] = None
    return ", ".join(f"{group}: {' '.join(numbers)}" for group, numbers in sorted(found.items()))


def persistently(call: Callable[..., Any], *arguments: Any) -> Any:
    """A client waits a while before it dials a server again that was away."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call(*arguments)
        except Exception:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)


def send_steps(sender: Any, begin: int, end: int) -> None:
    for number in range(begin, end):
        for group in GROUPS:
            persistently(sender.send, message("steady", f"{group} {number}", message_group=group))


def normal() -> str:
    sender, consumer = producer("orders"), simple("billing", "orders")
    made = message("orders", "plain", tag="new", keys="order-7")
    made.add_property("region", "north")
    receipt = sender.send(made)
    [view] = receive(consumer, 1)
    properties = ", ".join(f"{name}={value}" for name, value in view.properties.items())
    ids = (receipt.message_id, receipt.message_id[2:])  # the client 5.0.1 cuts off what it receives: "01", the version
    is_same = "same id" if view.message_id in ids else "other id"
    keys = ",".join(view.keys)
    return f"{view.body.decode()} {view.tag} [{keys}] {{{properties}}} attempt {view.delivery_attempt} {is_same}"


def refused() -> str:
    try:
        producer("orders").send(message("orders", "never"))
    except Exception as e:
        return f"refused: {e}"
    return "accepted"


def fifo() -> str:
    sender, consumer = producer("steps"), simple("sorted", "steps")
    for number in range(5):
        for group in GROUPS:
            sender.send(message("steps", f"{group} {number}", message_group=group))
    return in_groups(receive(consumer, 10))


def delay() -> str:
    sender, consumer = producer("later"), simple("late", "later")
    due_s = int(time.time()) + 2
    sender.send(message("later", "later", delivery_timestamp=due_s))
    [view] = receive(consumer, 1)
    return f"{view.body.decode()} {'in time' if time.time() > due_s - 1 else 'early'}"


def recall() -> str:
    if not hasattr(rocketmq.Producer, "recall_message"):
        raise LacksError("recall")
    sender = producer("later")
    receipt = sender.send(message("later", "never", delivery_timestamp=int(time.time()) + 3600))
    recalled = sender.recall_message("later", receipt.recall_handle)
    return "recalled" if recalled == receipt.message_id else "recalled another message"


def renew() -> str:
    sender, consumer = producer("work"), simple("workers", "work")
    sender.send(message("work", "work"))
    attempts: list[int] = []
    ends_s = time.monotonic() + PATIENCE_S
    while len(attempts) < 2 and time.monotonic() < ends_s:
        for view in consumer.receive(1, INVISIBLE_S):
            attempts.append(view.delivery_attempt)
            if len(attempts) == 1:
                consumer.change_invisible_duration(view, 1)
            else:
                consumer.ack(view)
    return f"attempts {attempts}"


def push_all() -> str:
    consumed: queue.Queue[str] = queue.Queue()

    def consume(view: Any) -> Any:
        consumed.put(view.body.decode())
        return rocketmq.ConsumeResult.SUCCESS

    push("jobbers", "jobs", consume)
    sender = producer("jobs")
    for number in range(10):
        sender.send(message("jobs", str(number)))
    return f"{len({consumed.get(timeout=PATIENCE_S) for _ in range(10)})} consumed"


def order() -> str:
    consumed: queue.Queue[str] = queue.Queue()

    def consume(view: Any) -> Any:
        body = view.body.decode()
        consumed.put(body)
        return rocketmq.ConsumeResult.FAILURE if body == "fails" else rocketmq.ConsumeResult.SUCCESS

    sender = producer("line")
    for body in ("a", "fails", "b", "c"):
        sender.send(message("line", body, message_group="order-7"))
    push("orderly", "line", consume)
    seen: list[str] = []
    while "c" not in seen:
        seen.append(consumed.get(timeout=PATIENCE_S))
    return " ".join(seen)


def transaction() -> str:
    asked: queue.Queue[str] = queue.Queue()

    def check(view: Any) -> Any:
        asked.put(view.body.decode())
        return rocketmq.TransactionResolution.COMMIT

    sender, consumer = producer("payments", check), simple("ledger", "payments")
    for body, end in (("committed", "commit"), ("rolled back", "rollback")):
        begun = sender.begin_transaction()
        sender.send(message("payments", body), begun)
        getattr(begun, end)()
    sender.send(message("payments", "left"), sender.begin_transaction())
    first = asked.get(timeout=PATIENCE_S)
    return f"asked {first}, received {bodies(receive(consumer, 2))}"


def dead() -> str:
    attempts: queue.Queue[int] = queue.Queue()

    def consume(view: Any) -> Any:
        attempts.put(view.delivery_attempt)
        return rocketmq.ConsumeResult.FAILURE

    push("hopeless", "poison", consume)
    producer("poison").send(message("poison", "poison"))
    seen = [attempts.get(timeout=PATIENCE_S)]
    while seen[-1] < 2:
        seen.append(attempts.get(timeout=PATIENCE_S))
    ask("dead", "hopeless")
    return f"attempts {seen}"


def filtered(topic: str, group: str, expression: Any) -> str:
    sender, consumer = producer(topic), simple(group, topic, expression)
    for number, tag in enumerate("abc", 1):
        made = message(topic, tag, tag=tag)
        made.add_property("size", str(number))
        sender.send(made)
    return bodies(receive(consumer, 2))


def restart() -> str:
    sender, consumer = producer("steady"), simple("steadfast", "steady")
    send_steps(sender, 0, 10)
    found = receive(consumer, 8)
    ask("restart", "server")
    send_steps(sender, 10, 20)
    missing = {f"{group} {number}" for group in GROUPS for number in range(20)}
    missing -= {view.body.decode() for view in found}
    ends_s = time.monotonic() + PATIENCE_S
    while missing and time.monotonic() < ends_s:
        for view in persistently(consumer.receive, 32, INVISIBLE_S):
            persistently(consumer.ack, view)
            found.append(view)
            missing.discard(view.body.decode())
    return in_groups(found)


SCENARIOS: dict[str, Callable[[], str]] = {
    "normal": normal,
    "accepted": normal,
    "refused": refused,
    "fifo": fifo,
    "delay": delay,
    "recall": recall,
    "renew": renew,
    "push": push_all,
    "order": order,
    "transaction": transaction,
    "dead": dead,
    "tag": lambda: filtered("tagged", "taggers", rocketmq.FilterExpression("a || b")),
    "sql": lambda: filtered("sized", "sizers", rocketmq.FilterExpression("size > 1", FilterType.SQL)),
    "restart": restart,
}

for name in NAMES:
    try:
        say("saw", name, SCENARIOS[name]())
    except LacksError as e:
        say("lacks", name, str(e))
    except Exception as e:
        say("failed", name, f"{type(e).__name__}: {e}")
    while OPENED:
        OPENED.pop().shutdown()
sys.stdout.flush()
os._exit(0)  # some versions leave threads behind that nothing ends
