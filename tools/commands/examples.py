"""Two examples of each command, which its `--help` ends with. tests/tools/test_every_command.py runs them."""

from __future__ import annotations

import typer

EXAMPLES: dict[str, tuple[str, str]] = {
    "backup": ("flightlog backup store backup", "flightlog backup store backup --json | jq .copied_size"),
    "bench append": ("flightlog bench append", "flightlog bench append --json | jq '.results[0]'"),
    "bench flush": ("flightlog bench flush", "flightlog bench flush --json"),
    "bench query": ("flightlog bench query", "flightlog bench query --json"),
    "bench read": ("flightlog bench read", "flightlog bench read --json"),
    "bench recover": ("flightlog bench recover", "flightlog bench recover --json"),
    "bench scan": ("flightlog bench scan", "flightlog bench scan --json"),
    "bench serve": ("flightlog bench serve", "flightlog bench serve --json"),
    "bench verify": ("flightlog bench verify", "flightlog bench verify --json"),
    "cat": (
        "flightlog cat store --topic orders --where 'amount > 100'",
        "flightlog cat store --since 2h --form parquet --output orders.parquet",
    ),
    "clean": ("flightlog clean store", "flightlog clean store --idle-minutes 1440 --write"),
    "config set": (
        "flightlog config set store billing --retry-max-times 3",
        "flightlog config set store billing --disabled --write",
    ),
    "config show": ("flightlog config show store", "flightlog config show store --json | jq .groups"),
    "copy": ("flightlog copy store copy", "flightlog copy store new-store --settings broker.conf"),
    "dead-letters list": (
        "flightlog dead-letters list store billing",
        "flightlog dead-letters list store billing --json | jq length",
    ),
    "dead-letters redrive": (
        "flightlog dead-letters redrive store billing",
        "flightlog dead-letters redrive store billing --where 'amount > 100' --write",
    ),
    "delays cancel": (
        "flightlog delays cancel store orders order-1",
        "flightlog delays cancel store orders order-1 --write",
    ),
    "delays list": ("flightlog delays list store", "flightlog delays list store --topic orders --json"),
    "demo": ("flightlog demo", "flightlog demo ./demo-store"),
    "diff": ("flightlog diff store backup", "flightlog diff store backup --json"),
    "export": (
        "flightlog export store orders.csv --topic orders",
        "flightlog export store orders.parquet --since 2h",
    ),
    "get": ("flightlog get store orders/0@1", "flightlog get store orders/0@1 --form hex"),
    "group commit": (
        "flightlog group commit store billing orders 0 7",
        "flightlog group commit store billing orders 0 7 --write",
    ),
    "group delete": (
        "flightlog group delete store billing",
        "flightlog group delete store billing --with-topics --write",
    ),
    "group reset": (
        "flightlog group reset store billing orders --to 2h",
        "flightlog group reset store billing orders --to 2026-05-01T12:00:00Z --write",
    ),
    "groups": ("flightlog groups store", "flightlog groups store --json | jq '.[] | select(.lag > 1000) | .name'"),
    "handover broker-conf": (
        "flightlog handover broker-conf store",
        "flightlog handover broker-conf store --name broker-b --port 10921",
    ),
    "handover check": ("flightlog handover check store", "flightlog handover check store --conf broker.conf"),
    "handover seed": (
        "flightlog handover seed store --slave slave --address 10.0.0.8",
        "flightlog handover seed store --slave slave-2 --address 10.0.0.9 --broker-id 2",
    ),
    "head": ("flightlog head store", "flightlog head store -n 100 --form json | jq -r .body"),
    "import": (
        "flightlog import other-store orders.jsonl --write",
        "flightlog import new-store store --keep-offsets --write",
    ),
    "info": ("flightlog info store", "flightlog info store --json | jq .groups"),
    "metrics": (
        "flightlog metrics store",
        "flightlog metrics store > /var/lib/node_exporter/store.prom.new && cd /var/lib/node_exporter && "
        "mv store.prom.new store.prom",
    ),
    "query": ("flightlog query store order-1", "flightlog query store order-1 --topic orders --form json"),
    "repair": ("flightlog repair store", "flightlog repair store --salvage new-store --write"),
    "replay": (
        "flightlog replay store other-store --rate 500 --write",
        "flightlog replay orders.jsonl --connect 127.0.0.1:8081 --write",
    ),
    "seal": ("flightlog seal store", "flightlog seal store --write"),
    "serve": ("flightlog serve store", "flightlog serve store --port 9081 --topic orders:8"),
    "stat": ("flightlog stat store --since 1d", "flightlog stat store -t orders --plot orders.png"),
    "stats": ("flightlog stats store --watch", "flightlog stats store --watch --json | jq -c .groups"),
    "tail": ("flightlog tail store -n 3", "flightlog tail store -f --topic orders --form json"),
    "topic alter": (
        "flightlog topic alter store orders --queues 8",
        "flightlog topic alter store orders --queues 8 --write",
    ),
    "topic create": (
        "flightlog topic create store bills --queues 4",
        "flightlog topic create store bills --queues 4 --perm r --write",
    ),
    "topic delete": ("flightlog topic delete store orders", "flightlog topic delete store orders --write"),
    "topics": (
        "flightlog topics store",
        "flightlog topics store --json | jq '.[] | select(.messages > 1000) | .topic'",
    ),
    "trace": ("flightlog trace store order-1", "flightlog trace store order-1 --json | jq '.[].what'"),
    "trim": ("flightlog trim store --before 3d", "flightlog trim store --consumed-by-all --write"),
    "verify": ("flightlog verify store", "flightlog verify store --json | jq .findings"),
}
"""Command -> its examples."""


def epilog_of(command: str) -> str | None:
    """The last lines of its `--help`."""
    found = EXAMPLES.get(command)
    return None if found is None else "\n\n".join(("Examples:", *found))


def add_examples(app: typer.Typer, prefix: str = "") -> None:
    """Have the help of every command end with its examples."""
    for each in app.registered_commands:
        name = each.name or (each.callback.__name__.replace("_", "-") if each.callback else "")
        each.epilog = epilog_of(prefix + name)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{group.typer_instance.info.name} ")
