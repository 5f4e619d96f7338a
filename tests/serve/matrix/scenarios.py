"""What a client of each language does at a server, and what it has to see.

The programs are in `tests/serve/{java,node,python,go,rust}`: `PROGRAM ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|-
SCENARIO...`. A program says a line for each scenario, with tabs between its parts:

    saw      SCENARIO  what the client saw
    lacks    SCENARIO  what this version of the client does not have
    failed   SCENARIO  why

In the midst of a scenario it may ask for something to be done, and then waits for a line on its standard input:

    restart  server    end the server and start it again
    dead     GROUP     wait until this group has a dead letter
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flightlog.produce.message_type import DELAY, FIFO, TRANSACTION
from flightlog.store.topic import NORMAL

TOPICS: Mapping[str, tuple[int, str]] = {
    "orders": (2, NORMAL),
    "steps": (2, FIFO),
    "later": (2, DELAY),
    "work": (2, NORMAL),
    "jobs": (2, NORMAL),
    "line": (2, FIFO),
    "payments": (2, TRANSACTION),
    "poison": (2, NORMAL),
    "tagged": (2, NORMAL),
    "sized": (2, NORMAL),
    "steady": (2, FIFO),
}
"""By name: the number of queues, and the type of their messages."""
GROUPS: Mapping[str, bool] = {
    "billing": False,
    "sorted": True,
    "late": False,
    "workers": False,
    "jobbers": False,
    "orderly": True,
    "ledger": False,
    "hopeless": False,
    "taggers": False,
    "sizers": False,
    "steadfast": True,
}
"""By name: whether it receives in order."""
RETRIES = 1
"""How often a message of each group is tried again before it becomes a dead letter."""
_IN_ORDER = " ".join(map(str, range(20)))
_AS_SENT = r"plain new \[order-7\] \{region=north\} attempt 1 same id"


@dataclass(frozen=True)
class Scenario:
    """One thing that a client does."""

    name: str
    shows: str
    saw: str
    """A regular expression of all that the client has to say."""
    needs_keys: bool = False

    def is_seen(self, text: str) -> bool:
        return re.fullmatch(self.saw, text) is not None


SCENARIOS = (
    Scenario("normal", "send, simple consumer", _AS_SENT),
    Scenario("fifo", "message groups, simple consumer in order", "order-1: 0 1 2 3 4, order-2: 0 1 2 3 4"),
    Scenario("delay", "a delayed message", "later in time"),
    Scenario("recall", "recall of a delayed message", "recalled"),
    Scenario("renew", "change of the invisible time", r"attempts \[1, 2\]"),
    Scenario("push", "push consumer", "10 consumed"),
    Scenario("order", "push consumer in order, a failure in the middle", "a fails( fails)? b c"),
    Scenario("transaction", "commit, roll back, the check of a left one", "asked left, received committed left"),
    Scenario("dead", "retries, then a dead letter", r"attempts \[1, 2\]"),
    Scenario("tag", "filter by tag", "a b"),
    Scenario("sql", "filter by SQL92", "b c"),
    Scenario("restart", "the server restarts in the middle", f"order-1: {_IN_ORDER}, order-2: {_IN_ORDER}"),
    Scenario("accepted", "access control: the right keys", _AS_SENT, needs_keys=True),
    Scenario("refused", "access control: a wrong secret key", "refused: .*", needs_keys=True),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
OPEN = tuple(scenario.name for scenario in SCENARIOS if not scenario.needs_keys)
"""Those of a server without access control."""
OVER_TLS = ("normal", "push", "transaction", "restart")
"""What CI tries over TLS as well."""
