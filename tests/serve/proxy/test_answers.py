"""Every question of `questions.py` to the server, its answers beside those that RocketMQ's proxies gave.

`answers-VERSION.txt` is what a proxy in local mode, with its broker, answered (`make proxy-answers` asks them again).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from flightlog import StoreSettings
from flightlog.tests.serve.proxy.conversation import Conversation
from flightlog.tests.serve.proxy.differences import EXPLAINED
from flightlog.tests.serve.proxy.questions import GROUPS, TOPICS, ask_all
from flightlog.tests.serve.proxy.recorded import VERSIONS, recorded
from flightlog.tests.support.rocketmq_server import ServedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

ROOM_FOR_THE_LARGEST = 16 << 20


def explanation(question: str) -> str | None:
    return next((pattern for pattern in EXPLAINED if re.fullmatch(pattern, question)), None)


@pytest.mark.ci
def test_each_answer_is_a_proxys_or_is_explained(tmp_path: Path, assert_clean: AssertClean) -> None:
    served = ServedStore(tmp_path / "store", StoreSettings.small(segment_size=ROOM_FOR_THE_LARGEST))
    served.auto_create = False
    served.start()
    try:
        for name, (queues, kind) in TOPICS.items():
            served.store.create_topic(name, queues, attributes={"message.type": kind})
        for name, is_ordered in GROUPS.items():
            served.store.update_group(name, is_ordered=is_ordered)
        with grpc.insecure_channel(served.address) as channel:
            talk = Conversation(channel, served.clock.advance)
            ask_all(talk)
    finally:
        served.stop()
    assert_clean(served.path)
    proxies = [recorded(version) for version in VERSIONS]
    assert set(talk.answers) == set(proxies[0]) == set(proxies[1])
    others = {name: text for name, text in talk.answers.items() if text not in [each[name] for each in proxies]}
    unexplained = {name: (text, proxies[-1][name]) for name, text in others.items() if explanation(name) is None}
    assert not unexplained
    assert {explanation(name) for name in others} == set(EXPLAINED), "these are no differences any more"
