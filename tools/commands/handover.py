"""`flightlog handover`: is a store fit for a RocketMQ broker, which `broker.conf` fits it, and a copy for a slave."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...handover.broker_conf import broker_conf as conf_text
from ...handover.check import check as check_store
from ...handover.findings import HandoverFinding, HandoverReport
from ...handover.seed import seed_slave
from ...store.conf.java_properties import parse_properties
from ..counting_disk import CountingDisk
from ..output import Output
from ..program import EXIT_FINDINGS
from ..progress_bar import ProgressBar
from ..words import count_text, printable, size_text
from .arguments import AsJson, Settings, StorePath, open_view, settings_of

handover = typer.Typer(
    name="handover",
    help="Hand a store over to RocketMQ's own brokers: check it, and write the conf that fits it.",
    no_args_is_help=True,
)

Port = Annotated[int | None, typer.Option(help="The broker's port.", show_default="that in the ids")]
BrokerName = Annotated[str | None, typer.Option(help="brokerName.", show_default="that of the settings, else store")]
Cluster = Annotated[str, typer.Option(help="brokerClusterName.")]
NameServer = Annotated[str, typer.Option(help="namesrvAddr: addresses separated by ;.")]


@handover.command()
def check(
    path: StorePath,
    conf: Annotated[
        Path | None,
        typer.Option("--conf", help="The broker.conf that the broker will have.", show_default="RocketMQ's defaults"),
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Name what stands in a broker's way, and the way out. Takes no lock and changes nothing.

    Findings concern every broker; notes some setups (a slave of 5.3.3, the gRPC proxy). Exit code: 0 no finding, 1
    findings, 2 wrong call, 3 cannot be read.
    """
    ours = settings_of(settings, path)
    with open_view(path, settings) as view:
        log_size = view.end_physical_offset - view.min_physical_offset
    disk = CountingDisk()
    with ProgressBar("reading the log", log_size, lambda: disk.read_size):
        report = check_store(path, conf, settings=ours, disk=disk)
    if as_json:
        print(json.dumps(as_object(report), indent=2))
    else:
        _show(report, Output())
    if not report.is_fit:
        raise typer.Exit(EXIT_FINDINGS)


def _show(report: HandoverReport, output: Output) -> None:
    for kind, found in (("finding", report.findings), ("note", report.notes)):
        for each in found:
            output.line(f"{kind} {each.name}: {printable(each.found)}")
            output.line(f"    {each.consequence}.")
            output.line(f"    Way out: {printable(each.mend)}.")
    if report.findings or report.notes:
        output.line()
    conf = "RocketMQ's default conf" if report.conf is None else printable(str(report.conf))
    result = "fit for a broker" if report.is_fit else count_text(len(report.findings), "finding")
    output.line(
        f"{printable(str(report.path))} with {conf}: {result}, {count_text(len(report.notes), 'note')}. "
        f"Looked at {count_text(report.records, 'record')}."
    )


def as_object(report: HandoverReport) -> dict[str, object]:
    """The object that `--json` prints."""

    def objects(found: list[HandoverFinding]) -> list[dict[str, str]]:
        return [asdict(each) for each in found]

    return {
        "path": str(report.path),
        "conf": None if report.conf is None else str(report.conf),
        "is_fit": report.is_fit,
        "findings": objects(report.findings),
        "notes": objects(report.notes),
        "records": report.records,
    }


@handover.command()
def broker_conf(
    path: StorePath,
    address: Annotated[str | None, typer.Option(help="The broker's address.", show_default="that in the ids")] = None,
    port: Port = None,
    name: BrokerName = None,
    cluster: Cluster = "DefaultCluster",
    name_server: NameServer = "127.0.0.1:9876",
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print the broker.conf with which a RocketMQ broker serves this store as it is. Changes nothing.

    `flightlog handover broker-conf ./store > broker.conf`, then `mqbroker -c broker.conf`.
    """
    text = conf_text(
        path,
        settings_of(settings, path),
        address=address,
        port=port,
        broker_name=name,
        cluster_name=cluster,
        name_server=name_server,
    )
    if as_json:
        print(json.dumps({"path": str(path), **_conf_object(text)}, indent=2))
    else:
        print(text, end="")


def _conf_object(text: str) -> dict[str, object]:
    """A broker.conf for programs: as a file, and its properties."""
    return {"conf": text, "properties": {each.key: each.value for each in parse_properties(text.encode())}}


@handover.command()
def seed(
    path: StorePath,
    slave: Annotated[Path, typer.Option(help="The folder to make: empty, or not there.", show_default=False)],
    address: Annotated[str, typer.Option(help="The slave's address.", show_default=False)],
    port: Port = None,
    broker_id: Annotated[int, typer.Option(help="brokerId: 1 or more.", min=1)] = 1,
    name: BrokerName = None,
    cluster: Cluster = "DefaultCluster",
    name_server: NameServer = "127.0.0.1:9876",
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Copy a closed store into the folder of a slave, and print the slave's broker.conf. Holes stay holes.

    `flightlog handover seed ./store --slave ./slave --address 10.0.0.8 > slave.conf`. An empty slave of a master
    without a controller would have only what comes behind the master's last segment.
    """
    with ProgressBar("copying", None):
        made = seed_slave(
            path,
            slave,
            settings_of(settings, path),
            address=address,
            port=port,
            broker_id=broker_id,
            broker_name=name,
            cluster_name=cluster,
            name_server=name_server,
        )
    if as_json:
        found = {"path": str(made.path), "copied_size": made.copied_size, **_conf_object(made.conf)}
        print(json.dumps(found, indent=2))
        return
    print(made.conf, end="")
    typer.echo(f"{printable(str(made.path))}: {size_text(made.copied_size)} copied", err=True)
