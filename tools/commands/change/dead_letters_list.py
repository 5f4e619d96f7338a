"""`flightlog dead-letters list PATH GROUP`: the messages that a consumer group gave up."""

from __future__ import annotations

import json

from ....consume.retry.redrive import stored_plan
from ....consume.retry.send_back import dead_letter_topic
from ....store.disk.disk import RealDisk
from ....store.format import property_names as props
from ....store.format.message_id import decode_message_id
from ....store.stored_message import StoredMessage
from ...output import Column, Output
from ...records.fields import iso_time
from ...words import count_text, printable, time_text
from ..arguments import AsJson, Group, Settings, StorePath, open_view


def dead_letters_list(path: StorePath, group: Group, settings: Settings = None, as_json: AsJson = False) -> None:
    """List the dead letters of a consumer group, and which of them were redriven. Changes nothing."""
    with open_view(path, settings) as view:
        left = {decode_message_id(each)[1] for each in stored_plan(RealDisk(), view, group, None, None).message_ids}
        topic = dead_letter_topic(group)
        letters = [
            (letter, letter.physical_offset not in left)
            for name, queue_id in sorted(view.queues())
            if name == topic
            for letter in view.read(name, queue_id, on_corrupt="skip")
        ]
    if as_json:
        print(json.dumps([_as_object(letter, is_redriven) for letter, is_redriven in letters], indent=2))
        return
    output = Output()
    columns = [Column("stored"), Column("redriven"), Column("topic"), Column("keys"), Column("message id")]
    rows = [
        [
            *(time_text(letter.store_timestamp_ms), "yes" if is_redriven else "no"),
            *(printable(letter.properties.get(props.RETRY_TOPIC, "")), printable(" ".join(letter.keys))),
            letter.message_id,
        ]
        for letter, is_redriven in letters
    ]
    output.table("Dead letters", columns, rows)
    output.line(f"{count_text(len(letters), 'dead letter')}, {len(left):,} of them not redriven")


def _as_object(letter: StoredMessage, is_redriven: bool) -> dict[str, object]:
    return {
        "message_id": letter.message_id,
        "store_time": iso_time(letter.store_timestamp_ms),
        "topic": letter.properties.get(props.RETRY_TOPIC, ""),
        "queue_id": letter.queue_id,
        "queue_offset": letter.queue_offset,
        "tags": letter.tags or "",
        "keys": list(letter.keys),
        "body_size": len(letter.body),
        "is_redriven": is_redriven,
    }
