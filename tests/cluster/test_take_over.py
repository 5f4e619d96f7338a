"""Brokers take over a store with everything in it, several times in a row, and flightlog goes on with what they leave.

Each turn: flightlog adds messages of all kinds, groups and debts (everything.py), and closes, is killed, or has its
power cut; a broker with the conf of `handover broker-conf` starts on the folder; RocketMQ's Java client of the remoting
protocol, and its Python and Java clients of gRPC through a proxy, get every message equal and what each group is owed;
the broker is stopped or killed, or has its power cut; flightlog verifies the folder and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.cluster.everything import CLOSE, CUT, KILL
from flightlog.tests.cluster.jars import FIRST, NEWEST, OLDEST
from flightlog.tests.cluster.places import Place
from flightlog.tests.cluster.processes import Cluster, free_port
from flightlog.tests.cluster.states import is_routed, wait_until
from flightlog.tests.cluster.turns import Turn
from flightlog.tests.support.rocketmq_clients import Address, PythonClients

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

pytestmark = [pytest.mark.ci, pytest.mark.timeout(2400)]


@pytest.mark.parametrize(
    ("version", "size", "endings"),
    [
        pytest.param(FIRST, "small", (CLOSE, KILL)),
        pytest.param(FIRST, "small", (CLOSE, KILL, CUT), marks=pytest.mark.full),
        pytest.param(FIRST, "default", (CUT, CLOSE, KILL), marks=pytest.mark.full),
        pytest.param(NEWEST, "small", (KILL, CUT, CLOSE), marks=pytest.mark.full),
        pytest.param(NEWEST, "default", (CLOSE, KILL, CUT), marks=pytest.mark.full),
        pytest.param(OLDEST, "small", (CLOSE, KILL, CUT), marks=pytest.mark.full),
        pytest.param(OLDEST, "default", (CUT, KILL, CLOSE), marks=pytest.mark.full),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_everything_goes_over_and_comes_back(
    jars: Callable[[str], Path],
    tmp_path: Path,
    assert_clean: AssertClean,
    version: str,
    size: str,
    endings: Sequence[str],
) -> None:
    is_49 = version == OLDEST
    with Place(tmp_path, has_power_cuts=CUT in endings) as place, ExitStack() as undo:
        cluster = undo.enter_context(Cluster(jars(version), tmp_path / "processes"))
        cluster.start_name_server()
        port, proxy = free_port(), ""
        for count in range(1, len(endings) + 1):
            turn = Turn(cluster, jars(version), place, tmp_path, size, endings[:count], is_49=is_49)
            turn.fill()
            broker = cluster.start_broker("broker", turn.conf(port))
            wait_until("the topic is routed", lambda: is_routed(cluster.name_server, "orders"))
            said = turn.read_by_java()
            if not is_49:
                if not proxy:
                    proxy = cluster.start_proxy()
                    clients = PythonClients(Address(proxy), undo)
                turn.read_by_python(clients)
                if len(endings) > 2:  # CI has no time for it
                    turn.read_by_java_over_grpc(proxy)
            turn.end(broker)
            turn.go_on_here(said)
            turn.mend()
            assert_clean(place.path)
