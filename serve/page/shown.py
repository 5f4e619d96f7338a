"""How names, times and bodies are shown. Everything is text, which the templates escape."""

from __future__ import annotations

import base64
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ...store.errors import FlightlogError
from ...store.format.compression import MAX_DECOMPRESSED_SIZE
from ...store.stored_message import StoredMessage

TEXT, HEX, BASE64 = FORMS = ("text", "hex", "base64")
CLIP_SIZE: Final = 4096
"""Bytes of a body that its message shows; the whole of it is a download."""
PREVIEW_SIZE, PREVIEW_BYTES = 120, 24
"""Length of a body's preview in a list: as text, and as hex."""
PREVIEWED_MAX = 1 << 20
"""Bytes that are made of a compressed body for a list."""
HEX_ROW = 16
SEEN_CONTROLS = "\n\t"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def visible(text: object) -> str:
    """The text with what would not be seen, or would turn the text around, as escapes: controls and format characters
    such as U+202E, and spaces of other kinds. For names."""
    return _escaped(str(text), kept="")


def _escaped(text: str, kept: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in kept or each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """Bytes, short."""
    power = min(max(number.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{number / (1 << 10 * power):,.1f} {UNITS[power]}" if power else f"{number} B"


def time(ms: int) -> str:
    """`2026-11-26 19:28:59.123 UTC`"""
    if not 0 <= ms <= MAX_MS:
        return f"{ms} ms"
    at = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d} UTC"


def duration(ms: int) -> str:
    """The two largest units of a time."""
    seconds = abs(ms) // 1000
    for unit, length, rest, rest_length in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            more = seconds % length // rest_length
            return f"{seconds // length:,} {unit}" + (f" {more} {rest}" if more else "")
    return f"{seconds} s" if seconds or not ms else f"{abs(ms)} ms"


@dataclass(frozen=True)
class Body:
    """A body, or its beginning, in one of the forms."""

    form: str
    text: str
    shown_size: int
    whole_size: int
    note: str
    """What there is to know of it besides; empty: nothing."""

    @property
    def is_clipped(self) -> bool:
        return self.shown_size < self.whole_size

    @property
    def extent(self) -> str:
        if self.is_clipped:
            return f"the first {self.shown_size:,} of {self.whole_size:,} bytes"
        return "all of it: " + plural(self.whole_size, "byte")


def unpacked(message: StoredMessage, max_size: int = MAX_DECOMPRESSED_SIZE) -> tuple[bytes, str]:
    """The body as it was sent, and what there is to know of that. At most `max_size` bytes are made of a compressed
    one; of a larger one there is what is stored."""
    try:
        body = message.decompressed_body(max_size)
    except FlightlogError as e:
        return message.body, f"as stored, because it cannot be decompressed: {e}"
    if body is message.body:
        return body, ""
    return body, f"stored compressed, in {len(message.body):,} bytes"


def shown_body(message: StoredMessage, form: str) -> Body:
    """`form`: one of FORMS; any other: text if the body is, else hex."""
    return _shown(*unpacked(message), form, CLIP_SIZE)


def _shown(body: bytes, note: str, form: str, clip_size: int) -> Body:
    clipped = body[:clip_size]
    text = _as_text(clipped, is_cut=len(body) > clip_size)
    if form not in FORMS:
        form = HEX if text is None else TEXT
    if form == BASE64:
        shown = base64.b64encode(clipped).decode()
    elif form == HEX:
        shown = _hex_rows(clipped)
    else:
        shown = clipped.decode("utf-8", "replace") if text is None else text
    shown_size = len(clipped) if form != TEXT or text is None else len(text.encode())
    return Body(form, _escaped(shown, SEEN_CONTROLS), shown_size, len(body), note)


def preview(message: StoredMessage) -> str:
    """The beginning of a body, for a list."""
    data, note = unpacked(message, PREVIEWED_MAX)
    body = _shown(data, note, "", PREVIEW_SIZE)
    if body.form == TEXT:
        text, is_whole = body.text, not body.is_clipped
    else:
        text, is_whole = data[:PREVIEW_BYTES].hex(" "), body.whole_size <= PREVIEW_BYTES
    return text if is_whole else f"{text} … ({body.whole_size:,} bytes)"


def _as_text(data: bytes, *, is_cut: bool) -> str | None:
    """None if this is no text: not UTF-8, or with control characters."""
    for end in range(len(data), max(len(data) - 4, -1), -1):  # a cut may have gone through a character
        try:
            text = data[:end].decode()
        except UnicodeDecodeError:
            if not is_cut:
                return None
            continue
        is_text = all(each in "\n\t\r" or unicodedata.category(each) != "Cc" for each in text)
        return text if is_text else None
    return None


def _hex_rows(data: bytes) -> str:
    rows = []
    for at in range(0, len(data), HEX_ROW):
        row = data[at : at + HEX_ROW]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        rows.append(f"{at:08x}  {row.hex(' '):<{3 * HEX_ROW - 1}}  {letters}")
    return "\n".join(rows)
