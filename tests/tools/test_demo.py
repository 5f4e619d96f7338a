"""The demo: what it claims is true, and it leaves stores that can be looked at."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

import flightlog
from flightlog.tests.support import process, signals
from flightlog.tools.commands import demo as demo_command
from flightlog.tools.demo.orders import STEPS, TOPIC, OrderCheck, order_messages

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

STORE_STAGE = "flightlog.tools.demo.store_stage"
SPARK_STAGE = "flightlog.tools.demo.spark_stage"
STAGE_WITHOUT_END = """
import sys
from flightlog.tools.demo import store_stage as stage

stage.KILL_AFTER_PUTS, stage.KILL_AFTER_S = 1 << 60, 1e9  # it puts until it is interrupted
sys.exit(stage.run_program(stage.main))
"""


@pytest.mark.ci
def test_the_store_stage(cli: Cli, tmp_path: Path) -> None:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    finished = cli(tmp_path / "demo", module=STORE_STAGE, env={"PATH": search})
    assert (finished.code, finished.err) == (0, "")
    assert [line.split()[:2] for line in finished.out.splitlines()[-2:]] == [
        ["flightlog", "info"],
        ["flightlog", "verify"],
    ]
    said = " ".join(finished.out.split())
    [acknowledged] = re.findall(r"Killed after [^:]+: ([\d,]+) puts had returned", said)
    assert f"All {acknowledged} acknowledged messages are there, each once." in said
    assert said.count("Clean: ") == 2
    assert "420 messages of 7 topics in 26 queues: as many in every topic as RocketMQ's own list says." in said
    with flightlog.open_read_only(tmp_path / "demo" / "orders-store") as view:
        stored = sum(end - first for first, end in view.queues().values())
        assert view.verify().is_clean
    assert stored >= int(acknowledged.replace(",", ""))
    for command in re.findall(r"flightlog (?:info|verify) \S+", said):
        assert cli(*command.split()[1:]).code == 0


def test_json_is_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_command, "find_spec", lambda name: None)  # as without Spark
    with pytest.raises(typer.Exit) as ended:
        demo_command.demo(tmp_path / "demo", as_json=True)
    assert ended.value.exit_code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(tmp_path / "demo")
    assert {key for step in found["steps"] for key in step} == {"text", "results"}
    title, putting, *_, spark = (step["text"] for step in found["steps"])
    assert title.startswith("The store: ") and "SIGKILL" in putting and "Spark" in spark
    assert sum(result.startswith("Clean: ") for step in found["steps"] for result in step["results"]) == 2


def test_a_folder_that_holds_something_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for arguments in ((tmp_path,), ()):
        finished = cli(*arguments, module=STORE_STAGE)
        assert (finished.code, finished.out) == (2, "")
        assert len(finished.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    spark = cli(tmp_path, module=SPARK_STAGE)
    assert (spark.code, len(spark.err.splitlines())) == (2, 1)


def test_an_interrupt_ends_it_and_its_writer(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", STAGE_WITHOUT_END, str(tmp_path / "demo")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=signals.default_signals
    ) as stage:
        progress = tmp_path / "demo" / "orders-store" / "flightlog" / "progress"
        while not progress.exists() and stage.poll() is None:
            time.sleep(0.02)
        os.kill(stage.pid, signal.SIGINT)
        _, err = stage.communicate(timeout=process.LIMIT_S)
    assert (stage.returncode, err) == (130, "")
    with flightlog.open(tmp_path / "demo" / "orders-store") as store:  # nobody holds its lock any more
        assert store.verify().is_clean


def test_every_thread_keeps_its_own_orders_in_order() -> None:
    seen: dict[str, list[str]] = {}
    queues: dict[str, set[int]] = {}
    for thread in range(4):
        for (key, step), message in itertools.islice(order_messages(thread, 4), 400):
            seen.setdefault(key, []).append(step)
            queues.setdefault(key, set()).add(message.queue_id or 0)
            assert int(key.removeprefix("order-")) % 4 == thread
    assert all(tuple(steps) == (*STEPS, "ship")[: len(steps)] for steps in seen.values())
    assert all(len(ids) == 1 for ids in queues.values())
    assert {queue_id for ids in queues.values() for queue_id in ids} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("puts", "wrong"),
    [
        ([("create", 0), ("pay", 0), ("deduct", 0)], []),
        ([("create", 0), ("pay", 0)], []),
        ([("pay", 0), ("create", 0), ("deduct", 0)], ["k"]),
        ([("create", 0), ("deduct", 0)], ["k"]),
        ([("create", 0), ("pay", 0), ("pay", 0), ("deduct", 0)], ["k"]),
        ([("create", 0), ("pay", 1), ("deduct", 1)], ["k"]),
    ],
)
def test_the_check_finds_an_order_that_is_out_of_order(
    tmp_path: Path, puts: list[tuple[str, int]], wrong: list[str]
) -> None:
    check = OrderCheck()
    with flightlog.open(tmp_path, flightlog.StoreSettings.small()) as store:
        for step, queue_id in puts:
            store.put(flightlog.Message(TOPIC, b"x", tags=step, keys="k", queue_id=queue_id))
        for topic, queue_id in store.queues():
            check.feed(store.read(topic, queue_id))
        assert store.verify().is_clean
    assert check.out_of_order == wrong


@pytest.mark.ci
def test_the_spark_stage(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    finished = cli("demo", folder)
    assert finished.code == 0, finished.err
    said = " ".join(finished.out.split())
    [stored_rows] = re.findall(r"([\d,]+) rows of 2 topics in", said)
    assert f"{stored_rows} rows of Parquet" in said
    assert "420 rows of 7 topics in" in said and "420 rows of Parquet" in said
    assert "40 orders, each in order by its offsets, 40 of them whole" in said
    topics = {path.name for path in (folder / "parquet" / "orders-store").glob("topic_folder=*")}
    assert topics == {"topic_folder=orders", "topic_folder=parcels"}
    assert len(list((folder / "parquet" / "rocketmq").glob("topic_folder=*/*.parquet"))) == 7
