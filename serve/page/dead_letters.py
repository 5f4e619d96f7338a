"""The dead letters of a group, and bringing them back."""

from __future__ import annotations

from itertools import islice

from ...consume.retry.redrive import RedriveResult
from ...consume.retry.send_back import dead_letter_topic
from ...store.errors import UsageError
from ...store.stored_message import StoredMessage
from .shown import plural, visible
from .site import Answer, Asked, PageError, bounds_by_topic, message_count
from .topics import newest

LISTED = 100
"""Letters of one list, the newest."""


def dead_letters(asked: Asked) -> Answer:
    """`/dead`: the newest dead letters of a group, and which of them were not redriven."""
    group = asked.needed("group")
    topic = dead_letter_topic(group)
    bounds = bounds_by_topic(asked.store).get(topic, {})
    letters = _newest(asked, topic, bounds)
    problem, waiting = "", RedriveResult()
    try:
        waiting = asked.store.redrive(group, dry_run=True)
    except UsageError as e:  # a topic that is no more, or a letter that names none
        problem = str(e)
    return asked.page(
        "dead.html",
        "Dead letters",
        group=group,
        letters=letters,
        letter_count=message_count(bounds),
        waiting=frozenset(waiting.message_ids),
        by_topic=waiting.by_topic,
        problem=problem,
    )


def _newest(asked: Asked, topic: str, bounds: dict[int, tuple[int, int]]) -> list[StoredMessage]:
    if len(bounds) != 1:
        return newest(asked.store, topic, bounds)
    [(queue_id, (first, end))] = bounds.items()
    found = asked.store.read(topic, queue_id, max(first, end - LISTED), on_corrupt="skip")
    return list(islice(found, LISTED))[::-1]


def redrive(asked: Asked) -> Answer:
    """`/redrive`, a write: first what it would do, and with `confirmed` doing it. `id` names letters; `all`: all."""
    group, is_all = asked.field("group"), bool(asked.field("all"))
    chosen = frozenset(asked.form.get("id", ()))
    if not chosen and not is_all:
        raise PageError("no dead letter was chosen")
    where = None if is_all else lambda letter: letter.message_id in chosen
    if asked.field("confirmed"):
        done = asked.store.redrive(group, where=where)
        return Answer(redirect=asked.href("/dead", group=group, done=len(done)))
    planned = asked.store.redrive(group, where=where, dry_run=True)
    rows = [(visible(topic), f"{count:,}") for topic, count in sorted(planned.by_topic.items())]
    fields = {"group": [group], "all": ["1"]} if is_all else {"group": [group], "id": sorted(planned.message_ids)}
    letters = plural(len(planned), "dead letter")
    return asked.page(
        "confirm.html",
        "Redrive?",
        action="/redrive",
        back=asked.href("/dead", group=group),
        button=f"Redrive {letters}" if len(planned) else "",
        fields=fields,
        question=f"Redrive {letters} of group {visible(group)}?",
        heading=("To topic", "Messages"),
        rows=rows,
        warning=(
            "A copy of each goes to the topic that it was first put to, and every group that reads the topic receives "
            "it. The dead letters stay where they are."
        ),
    )
