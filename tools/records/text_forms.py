"""Messages as lines of text: for people, as JSON, as CSV; and their bodies alone."""

from __future__ import annotations

import csv
import io
import json
from typing import BinaryIO, Protocol

from ...store.stored_message import StoredMessage
from ..words import printable, size_text
from .fields import BODY, BODY_BASE64, NAMES, BodyForm, body_of, fields_of, iso_time

BODY_SHOWN = 60
"""Characters of a body in a line for people."""


class Form(Protocol):
    """Writes messages in one form."""

    def write(self, message: StoredMessage) -> None: ...

    def end(self) -> None:
        """The last message was written."""


class Lines:
    """For people: time, topic/queue@offset, tags, keys, size, and the beginning of the body."""

    def __init__(self, output: BinaryIO, body_form: BodyForm) -> None:
        self._output, self._body_form = output, body_form

    def write(self, message: StoredMessage) -> None:
        words = [iso_time(message.store_timestamp_ms), f"{message.topic}/{message.queue_id}@{message.queue_offset}"]
        words += [f"tags={message.tags}"] if message.tags else []
        words += [f"keys={','.join(message.keys)}"] if message.keys else []
        words += [f"attempt={message.reconsume_times + 1}"] if message.reconsume_times else []
        name, text = body_of(message, self._body_form)
        text = text if len(text) <= BODY_SHOWN else f"{text[:BODY_SHOWN]}…"
        words += [size_text(len(message.body)), f"base64:{text}" if name == BODY_BASE64 else text]
        self._output.write((printable("  ".join(words)) + "\n").encode())

    def end(self) -> None:
        """Nothing is left to write."""


class JsonLines:
    """One JSON object a line, with the names of fields.py."""

    def __init__(self, output: BinaryIO, body_form: BodyForm) -> None:
        self._output, self._body_form = output, body_form

    def write(self, message: StoredMessage) -> None:
        name, text = body_of(message, self._body_form)
        line = json.dumps({**fields_of(message), name: text}, ensure_ascii=False)
        self._output.write(line.encode(errors="backslashreplace") + b"\n")

    def end(self) -> None:
        """Nothing is left to write."""


class CsvRows:
    """RFC 4180 with a header. Keys are separated by a space, as in RocketMQ; properties are a JSON object."""

    def __init__(self, output: BinaryIO, body_form: BodyForm, *, has_header: bool = False) -> None:
        """`has_header`: the output has it already."""
        self._body_form = body_form
        self._text = io.TextIOWrapper(output, "utf-8", errors="backslashreplace", newline="", write_through=True)
        self._writer = csv.DictWriter(self._text, [*NAMES, BODY, BODY_BASE64], restval="")
        if not has_header:
            self._writer.writeheader()

    def write(self, message: StoredMessage) -> None:
        name, text = body_of(message, self._body_form)
        row = fields_of(message)
        row["keys"] = " ".join(row["keys"])
        row["properties"] = json.dumps(row["properties"], ensure_ascii=False)
        self._writer.writerow({**row, name: text})

    def end(self) -> None:
        self._text.detach()


class Bodies:
    """Each body as it is, and a newline."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output

    def write(self, message: StoredMessage) -> None:
        self._output.write(message.body + b"\n")

    def end(self) -> None:
        """Nothing is left to write."""
