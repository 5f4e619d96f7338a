"""Two examples of each command, which its `--help` ends with."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, str]] = {
    "info": ("flightlog info store", "flightlog info store --json | jq .groups"),
    "stat": ("flightlog stat store --since 1d", "flightlog stat store -t orders --plot orders.png"),
    "metrics": (
        "flightlog metrics store",
        "flightlog metrics store > /var/lib/node_exporter/store.prom.new && cd /var/lib/node_exporter && "
        "mv store.prom.new store.prom",
    ),
    "stats": ("flightlog stats store --watch", "flightlog stats store --watch --json | jq -c .groups"),
    "topics": (
        "flightlog topics store",
        "flightlog topics store --json | jq '.[] | select(.messages > 1000) | .topic'",
    ),
}
"""Command -> its examples."""


def epilog_of(command: str) -> str | None:
    """The last lines of its `--help`."""
    found = EXAMPLES.get(command)
    return None if found is None else "\n\n".join(("Examples:", *found))
