"""`flightlog config show PATH`: the settings that a store keeps itself: sizes of its files, topics, groups."""

from __future__ import annotations

import json
from dataclasses import asdict

from ....consume.group.stored_groups import stored_groups
from ....store.disk.disk import RealDisk
from ....store.state.geometry import Geometry
from ...output import Column, Output
from ...words import printable
from ..arguments import AsJson, Settings, StorePath, open_view
from .topic.fields import topic_text


def config_show(path: StorePath, settings: Settings = None, as_json: AsJson = False) -> None:
    """Show the sizes of the files, the topics and the settings of groups that a store keeps. Changes nothing.

    All other settings are the program's that opens the store: it passes them each time.
    """
    disk = RealDisk()
    with open_view(path, settings) as view:
        topics = view.topics()
        groups = stored_groups(disk, path, view.queues())
    sizes = Geometry(disk, path, is_empty=False).noted
    if as_json:
        kept = {
            "sizes": sizes,
            "topics": {name: asdict(topic) for name, topic in topics.items()},
            "groups": {name: asdict(group.settings) for name, group in groups.items()},
        }
        print(json.dumps(kept, indent=2))
        return
    output = Output()
    output.table("Sizes", [Column("setting"), Column("value", True)], [[name, f"{sizes[name]:,}"] for name in sizes])
    output.table("Topics", [Column("topic")], [[topic_text(topic)] for topic in topics.values()])
    names = ["is_enabled", "is_broadcast_enabled", "is_ordered", "retry_queue_count", "retry_max_times"]
    columns = [Column("group"), *(Column(name) for name in names), Column("consume_timeout_minutes")]
    rows = [
        [printable(name), *(str(getattr(group.settings, each)) for each in [*names, "consume_timeout_minutes"])]
        for name, group in groups.items()
    ]
    output.table("Groups", columns, rows)
