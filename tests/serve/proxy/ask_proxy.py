"""Ask RocketMQ's own proxy, and tell which answers are others than recorded: `make proxy-answers`.

`python tests/serve/proxy/ask_proxy.py FOLDER_OF_JARS [--record]`; with --record its answers are kept.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from flightlog.tests.serve.proxy.conversation import PATIENCE_S, Conversation
from flightlog.tests.serve.proxy.questions import GROUPS, TOPICS, ask_all, route
from flightlog.tests.serve.proxy.recorded import record, recorded
from flightlog.tools.bench.served.rocketmq_proxy import rocketmq_running

SETTINGS = {"recallMessageEnable": "true", "enablePropertyFilter": "true"}
LOOK_S = 0.5


def answers_of(jars: Path, folder: Path) -> dict[str, str]:
    with (
        rocketmq_running(jars, folder, TOPICS, GROUPS, SETTINGS) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        talk = Conversation(channel, lambda ms: time.sleep(ms / 1000))
        until_s = time.monotonic() + PATIENCE_S
        while talk.ask("ready", "QueryRoute", route("orders")) is None or '"OK"' not in talk.answers["ready"]:
            if time.monotonic() > until_s:
                raise TimeoutError((server.logs / "proxy.ProxyStartup.out").read_text())
            del talk.answers["ready"]
            time.sleep(LOOK_S)
        del talk.answers["ready"]
        ask_all(talk)
    return talk.answers


def main() -> int:
    jars, is_recording = Path(sys.argv[1]), "--record" in sys.argv[2:]
    [jar] = jars.glob("rocketmq-proxy-*.jar")
    version = jar.stem.removeprefix("rocketmq-proxy-")
    with TemporaryDirectory() as folder:
        answers = answers_of(jars, Path(folder))
    if is_recording:
        record(version, answers)
    before = recorded(version)
    others = {name: (before.get(name), text) for name, text in answers.items() if before.get(name) != text}
    for name, (was, text) in others.items():
        print(f"{name}\n  recorded {was}\n  now      {text}")
    print(f"{version}: {len(answers)} questions, {len(others)} answers are others than recorded")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
