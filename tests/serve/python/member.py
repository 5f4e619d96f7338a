"""A gRPC member of a group that consumes in order: `python member.py ADDRESS GROUP TOPIC`. Says each message that it
got, with the queue that its tag names; leaves when its input ends."""

from __future__ import annotations

import sys
from typing import Any

from rocketmq import ClientConfiguration, ConsumeResult, Credentials, FilterExpression, MessageListener, PushConsumer


class Listener(MessageListener):  # type: ignore[misc]
    """It is called by several threads, each with another queue's messages."""

    def consume(self, message: Any) -> Any:
        sys.stdout.write(f"got {message.tag} {message.body.decode()}\n")
        sys.stdout.flush()
        return ConsumeResult.SUCCESS


def main(address: str, group: str, topic: str) -> None:
    configuration = ClientConfiguration(address, Credentials(), request_timeout=30)
    consumer = PushConsumer(configuration, group, Listener(), {topic: FilterExpression()})
    consumer.startup()
    sys.stdin.read()
    consumer.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
