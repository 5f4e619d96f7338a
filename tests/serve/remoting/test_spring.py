"""A small application of `rocketmq-spring-boot-starter`, unmodified, from Maven Central."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support.remoting_java import FOLDER, QUICK
from flightlog.tests.support.rocketmq_java import RUN_S, SHORT_LIVED, JavaClientMissingError, fetch_jars

if TYPE_CHECKING:
    from flightlog.tests.support.remoting_server import RemotingStore

SPRING = FOLDER / "spring"


@pytest.mark.ci
def test_a_spring_application_sends_and_consumes(served: RemotingStore) -> None:
    try:
        jars = fetch_jars(SPRING, "rocketmq-spring-boot-starter")
    except JavaClientMissingError as e:
        pytest.skip(str(e))
    for topic in ("orders", "steps", "failing", "payments"):  # else its consumers look for them again after 30 s
        served.store.create_topic(topic, 2)
    home = served.path.parent
    classes = home / "classes"  # Spring reads them as files, so the program is compiled first
    compiling = [
        "javac",
        "-encoding",
        "UTF-8",
        "-cp",
        f"{jars}/*",
        "-d",
        str(classes),
        str(SPRING / "Application.java"),
    ]
    subprocess.run(compiling, check=True, timeout=RUN_S)
    options = ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", f"-Duser.home={home}"]
    options += [f"-Drocketmq.client.rebalance.{each}" for each in QUICK]
    command = ["java", *SHORT_LIVED, *options, "-cp", f"{classes}:{jars}/*", "Application", served.address]
    found = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=home)
    assert found.returncode == 0, f"{found.stdout[-4000:]}\n{found.stderr[-4000:]}"
    said = [line for line in found.stdout.splitlines() if line.partition(" ")[0] in SAID]
    assert said == [
        "sent SEND_OK",
        "consumed [1 ordered, 3 späť]",
        "in order 0123456789",
        "tried fails once, fails once",
        "transaction commit, 0 more",
        "done",
    ], f"{found.stdout[-4000:]}\n{found.stderr[-4000:]}"


SAID = ("sent", "consumed", "in", "tried", "transaction", "done")
"""First words of what the program prints; Spring's log stands between."""
