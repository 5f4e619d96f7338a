"""`flightlog handover`: a conf out of a pipe, findings in text and JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog
from flightlog import Message

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]
    Fingerprint = Callable[[Path], object]


def test_the_two_commands_of_the_document(
    cli: Cli, clean_store: Path, tmp_path: Path, fingerprint: Fingerprint
) -> None:
    before = fingerprint(clean_store)
    printed = cli("handover", "broker-conf", clean_store, "--address", "10.0.0.7", "--name-server", "10.0.0.5:9876")
    assert printed.code == 0 and not printed.err
    assert "brokerIP1=10.0.0.7" in printed.out and "namesrvAddr=10.0.0.5:9876" in printed.out
    conf = tmp_path / "broker.conf"
    conf.write_text(printed.out)
    checked = cli("handover", "check", clean_store, "--conf", conf)
    assert checked.code == 0 and not checked.err
    assert checked.out.splitlines()[-1].startswith(f"{clean_store} with {conf}: fit for a broker, 1 note. Looked at ")
    assert "note store-host: " in checked.out
    assert fingerprint(clean_store) == before


def test_findings_end_with_1_and_can_be_read_by_a_program(cli: Cli, clean_store: Path) -> None:
    with flightlog.open(clean_store, flightlog.StoreSettings(rocketmq_strict=False)) as store:
        store.put(Message("dotted.topic", b"x"))
    found = cli("handover", "check", clean_store)
    assert found.code == 1 and "finding file-sizes: mappedFileSizeCommitLog is 65,536 here" in found.out
    assert "    Way out: write the conf with `flightlog handover broker-conf`" in found.out
    assert "with RocketMQ's default conf: " in found.out
    told = cli("handover", "check", clean_store, "--json")
    report = json.loads(told.out)
    assert told.code == 1 and not report["is_fit"] and report["conf"] is None
    names = [each["name"] for each in report["findings"]]
    assert names[0] == "file-sizes" and names[-1] == "topic-names"
    assert {tuple(each) for each in report["findings"] + report["notes"]} == {("name", "found", "consequence", "mend")}


def test_settings_come_from_a_conf(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("messageDelayLevel=1s 7s\nflushDiskType=SYNC_FLUSH\nfileReservedTime=5\n")
    printed = cli("handover", "broker-conf", clean_store, "--settings", conf)
    assert printed.code == 0
    assert "messageDelayLevel=1s 7s" in printed.out and "fileReservedTime=5" in printed.out
    assert "flushDiskType=SYNC_FLUSH" in printed.out


def test_wrong_calls(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    assert cli("handover", "check", tmp_path / "nothing").code == 2
    missing = cli("handover", "check", clean_store, "--conf", tmp_path / "no.conf")
    assert missing.code == 2 and "no such file" in missing.err
    wrong = cli("handover", "broker-conf", clean_store, "--port", "99999")
    assert wrong.code == 2, wrong
