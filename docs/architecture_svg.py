"""Draws docs/architecture.svg: the rooms of flightlog, the files of a store, and what flows between them.

    python -P docs/architecture_svg.py

writes it; only Python is needed. The picture has its own background, so it looks the same on dark and light pages. A
text that does not fit its box, or two boxes that overlap, raise ValueError. Widths are estimated for DejaVu Sans, which
is wide: narrower fonts fit as well. `tests/house/test_documents.py` compares the committed picture with this program.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path

WIDTH, HEIGHT = 1160, 820
MARGIN = 16
TITLE_SIZE, TEXT_SIZE, NOTE_SIZE = 15.0, 13.0, 12.0
EM = 0.58
"""Mean width of a letter as a fraction of the font size, for DejaVu Sans."""
BOLD_EM = 0.65
LINE_HEIGHT = 18

SANS = "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
INK, FAINT, PAPER, ARROW = "#1f2328", "#59636e", "#fcfcfd", "#4b5563"


@dataclass(frozen=True)
class Colour:
    """Colours of one room."""

    line: str
    fill: str


CALLER = Colour("#6e7781", "#ffffff")
STORE = Colour("#1a7f53", "#e3f4eb")
INDEX = Colour("#946200", "#fdf2d4")
SCHEDULE = Colour("#8250c4", "#f1eafb")
ENGINE = Colour("#2463b5", "#e5eefb")
CONSUME = Colour("#b8404a", "#fbe9ea")
SPARK = Colour("#b35412", "#fdeedf")
TOOLS = Colour("#57606a", "#eaeef2")
FILES = Colour("#57606a", "#f3f4f6")


@dataclass(frozen=True)
class Box:
    """A part of the store, in the colour of its room. Positions and sizes are pixels from the top left corner."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...]
    colour: Colour

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    def overlaps(self, other: Box) -> bool:
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom

    def draw(self) -> list[str]:
        """Raises ValueError if the text is wider or taller than the box."""
        needed = max([_width(self.title, TITLE_SIZE, BOLD_EM), *(_width(line, TEXT_SIZE) for line in self.lines)])
        height = (1 + len(self.lines)) * LINE_HEIGHT + 6
        if needed > self.width - 8 or height > self.height:
            raise ValueError(f"{self.title!r}: needs {needed:.0f} x {height}, has {self.width} x {self.height}")
        drawn = [
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}" rx="6" '
            f'fill="{self.colour.fill}" stroke="{self.colour.line}" stroke-width="1.5"/>'
        ]
        first = self.y + (self.height - height + 6) / 2 + 14
        drawn.append(drawn_text(self.middle, first, self.title, TITLE_SIZE, self.colour.line, bold=True))
        for place, line in enumerate(self.lines, 1):
            drawn.append(drawn_text(self.middle, first + place * LINE_HEIGHT, line, TEXT_SIZE, INK))
        return drawn


@dataclass(frozen=True)
class Arrow:
    """A line through these points with a head at the last one (`both`: at either end), and a note beside it."""

    points: tuple[tuple[float, float], ...]
    note: str = ""
    note_at: tuple[float, float] = (0, 0)
    anchor: str = "start"
    dashed: bool = False
    both: bool = False

    def draw(self) -> list[str]:
        path = " ".join(f"{'L' if place else 'M'} {x:g} {y:g}" for place, (x, y) in enumerate(self.points))
        dash = ' stroke-dasharray="5 4"' if self.dashed else ""
        start = ' marker-start="url(#head)"' if self.both else ""
        drawn = [
            f'<path d="{path}" fill="none" stroke="{ARROW}" stroke-width="1.6"{dash}{start} marker-end="url(#head)"/>'
        ]
        for place, line in enumerate(self.note.split("\n") if self.note else ()):
            x, y = self.note_at[0], self.note_at[1] + place * 15
            drawn.append(drawn_text(x, y, line, NOTE_SIZE, FAINT, anchor=self.anchor, halo=True))
        return drawn


def _width(text: str, size: float, em: float = EM) -> float:
    return len(text) * size * em


def drawn_text(
    x: float,
    y: float,
    text: str,
    size: float,
    fill: str,
    *,
    anchor: str = "middle",
    bold: bool = False,
    halo: bool = False,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    start = f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
    drawn = f'{start} fill="{fill}"{weight}>{escape(text)}</text>'
    if halo:  # twice, as not every program that shows pictures knows `paint-order`
        drawn = f'{start} fill="none" stroke="{PAPER}" stroke-width="4">{escape(text)}</text>{drawn}'
    return drawn


C1, C2, C3, C4 = 16, 316, 602, 884
"""Left edges of the four columns: writes, threads, reads, other processes."""
W1, W2, W3, W4 = 256, 240, 236, 260
R0, R1, R2, R3, R4 = 54, 156, 246, 336, 426
FOLDER_Y, FILES_Y, FILES_HEIGHT = 556, 590, 104
HALF = 122

WRITES = Box(C1, R0, W1, 60, "put, put_many, put_async", ("append_columns", "append_atomically"), CALLER)
PRODUCER = Box(C2, R0, W2, 60, "Producer", ("picks a store and a queue",), CONSUME)
READS = Box(C3, R0, HALF - 8, 60, "get, read", ("query, pull",), CALLER)
GROUPS = Box(C3 + HALF, R0, HALF - 8, 60, "subscribe", ("Consumer",), CALLER)
OTHERS = Box(C4 + 14, R0 + 22, W4 - 28, 60, "Spark, flightlog info", ("an application's own views",), CALLER)

FAST = Box(C1, R1, HALF, 62, "Fast path", ("one C call,", "no lock"), STORE)
SLOW = Box(C1 + HALF + 12, R1, HALF, 62, "Slow path", ("all checks,", "append lock"), ENGINE)
APPEND = Box(C1, R2, W1, 62, "Commit log: append", ("encode, CRC, queue offset;", "then move the end"), STORE)
COMMIT = Box(C1 + 66, R3 + 6, W1 - 66, 62, "Group commit", ("one fdatasync for", "all puts that wait"), STORE)

DELAY = Box(C2, R1, W2, 62, "Delay levels, timers", ("flightlog-delay:", "parked, then delivered"), SCHEDULE)
PREPARE = Box(C2, R2, W2, 62, "Preparation", ("flightlog-prepare: blocks,", "pages, the next segment"), ENGINE)
DISPATCH = Box(C2, R3, W2, 62, "Dispatch", ("flightlog-flush: queue entries", "and keys from the log"), ENGINE)
FLUSH = Box(
    C2,
    R4,
    W2,
    80,
    "Flush round",
    ("flightlog-flush: sync, then", "checkpoint, progress page,", "seals; retention"),
    ENGINE,
)

READER = Box(C3, R1, HALF - 8, 80, "Read path", ("queue entry,", "then record,", "CRC checked"), ENGINE)
CONSUMER = Box(C3 + HALF, R1, HALF - 8, 80, "Groups", ("assignment,", "redelivery,", "offsets"), CONSUME)
WAKE = Box(C3 + 40, R3, W3 - 76, 80, "Wake-ups", ("long polls too:", "flightlog-arrivals,", "flightlog-pulls"), ENGINE)

SOURCE = Box(
    C4 + 14,
    178,
    W4 - 28,
    80,
    "Spark source",
    ("the driver plans ranges,", "tasks read their bytes", "into Arrow batches"),
    SPARK,
)
VIEW = Box(
    C4 + 14,
    282,
    W4 - 28,
    80,
    "Read-only view",
    ("no lock and no write:", "missing entries are", "dispatched in memory"),
    ENGINE,
)
BROKER = Box(C4 + 14, 386, W4 - 28, 62, "RocketMQ broker", ("takes the directory over", "and gives it back"), CALLER)

LOG_FILES = Box(
    C1 + 10,
    FILES_Y,
    W1 - 10,
    FILES_HEIGHT,
    "commitlog/",
    ("every record, in segments", "of 1 GiB: append-only,", "the only truth"),
    STORE,
)
DERIVED = Box(
    C2,
    FILES_Y,
    W2,
    FILES_HEIGHT,
    "consumequeue/  index/",
    ("20 bytes a message; keys.", "Rebuilt wherever they", "disagree with the log"),
    INDEX,
)
STATE = Box(
    C3,
    FILES_Y,
    W3,
    FILES_HEIGHT,
    "config/  timerlog/",
    ("topics; offsets of groups and", "delay levels; timers", "(with the file timerwheel)"),
    TOOLS,
)
MARKS = Box(
    C4,
    FILES_Y,
    W4 - 10,
    FILES_HEIGHT,
    "flightlog/, checkpoint",
    ("progress: how far the writer is;", "seals/, open-seal, cut-OFFSET;", "beside them abort and lock"),
    ENGINE,
)

BOXES = (
    *(WRITES, PRODUCER, READS, GROUPS, OTHERS, FAST, SLOW, APPEND, COMMIT, DELAY, PREPARE, DISPATCH, FLUSH),
    *(READER, CONSUMER, WAKE, SOURCE, VIEW, BROKER, LOG_FILES, DERIVED, STATE, MARKS),
)

LEFT_GAP, RIGHT_GAP = C1 + W1, C2 + W2

ARROWS = (
    Arrow(((FAST.middle, WRITES.bottom), (FAST.middle, FAST.y))),
    Arrow(((PRODUCER.x, R0 + 30), (WRITES.right, R0 + 30))),
    Arrow(((FAST.right, R1 + 31), (SLOW.x, R1 + 31)), dashed=True),
    Arrow(((FAST.middle, FAST.bottom), (FAST.middle, APPEND.y))),
    Arrow(((SLOW.middle, SLOW.bottom), (SLOW.middle, APPEND.y))),
    Arrow(((DELAY.x, R1 + 31), (SLOW.right, R1 + 31)), both=True),
    Arrow(((C1 + 32, APPEND.bottom), (C1 + 32, FILES_Y)), "stores\nthrough\nmmap", (C1 + 40, R4 + 34)),
    Arrow(
        ((COMMIT.middle + 30, APPEND.bottom), (COMMIT.middle + 30, COMMIT.y)),
        "sync flush",
        (COMMIT.middle + 22, 322),
        "end",
    ),
    Arrow(
        ((COMMIT.middle + 30, COMMIT.bottom), (COMMIT.middle + 30, FILES_Y)),
        "fdatasync",
        (COMMIT.middle + 22, R4 + 64),
        "end",
    ),
    Arrow(
        ((PREPARE.x, R2 + 31), (LEFT_GAP + 14, R2 + 31), (LEFT_GAP + 14, FILES_Y + 30), (LOG_FILES.right, FILES_Y + 30))
    ),
    Arrow(
        (
            (LOG_FILES.right, FILES_Y + 60),
            (LEFT_GAP + 30, FILES_Y + 60),
            (LEFT_GAP + 30, R3 + 31),
            (DISPATCH.x, R3 + 31),
        )
    ),
    Arrow(
        (
            (DISPATCH.right, R3 + 45),
            (RIGHT_GAP + 16, R3 + 45),
            (RIGHT_GAP + 16, FILES_Y + 30),
            (DERIVED.right, FILES_Y + 30),
        )
    ),
    Arrow(((DISPATCH.right, R3 + 20), (WAKE.x, R3 + 20))),
    Arrow(((C2 + 80, FLUSH.bottom), (C2 + 80, FILES_Y)), "sync", (C2 + 88, 530)),
    Arrow(
        ((C2 + 190, FLUSH.bottom), (C2 + 190, 538), (MARKS.x + 40, 538), (MARKS.x + 40, FILES_Y)),
        "what is durable",
        (C3 + 70, 532),
    ),
    Arrow(((WAKE.x + 110, WAKE.y), (WAKE.x + 110, CONSUMER.bottom))),
    Arrow(((WAKE.x + 20, WAKE.y), (WAKE.x + 20, READER.bottom))),
    Arrow(((CONSUMER.x, R1 + 40), (READER.right, R1 + 40))),
    Arrow(((READS.middle, READS.bottom), (READS.middle, READER.y))),
    Arrow(((GROUPS.middle, GROUPS.bottom), (GROUPS.middle, CONSUMER.y))),
    Arrow(((C3 + 16, FOLDER_Y), (C3 + 16, READER.bottom)), "entries,\nrecords", (C3 + 24, R4 + 66)),
    Arrow(
        ((CONSUMER.right - 14, CONSUMER.bottom), (CONSUMER.right - 14, FILES_Y)),
        "offsets",
        (CONSUMER.right - 20, R4 + 66),
        "end",
    ),
    Arrow(((OTHERS.middle, OTHERS.bottom), (OTHERS.middle, SOURCE.y))),
    Arrow(((SOURCE.middle, SOURCE.bottom), (SOURCE.middle, VIEW.y))),
    Arrow(((C4 + 150, FILES_Y - 34), (C4 + 150, 470)), "all files", (C4 + 158, 510)),
)

FLOORS = (
    ("tools/", "commands", TOOLS, 104),
    ("produce/  consume/", "who writes, who reads", CONSUME, 186),
    ("spark/", "data source", SPARK, 112),
    ("engine/", "one store put together", ENGINE, 182),
    ("schedule/", "messages that wait", SCHEDULE, 160),
    ("index/", "derived from the log", INDEX, 168),
    ("store/", "the commit log", STORE, 156),
)


def _floors() -> list[str]:
    """The rooms along the lower edge, the top floor first."""
    y, x, drawn = 734.0, float(MARGIN), list[str]()
    for name, what, colour, width in FLOORS:
        box = Box(x, y, width, 48, name, (what,), colour)
        drawn += box.draw()
        x = box.right + 10
    told = "A room imports only from rooms to its right; produce, consume and spark do not import each other."
    drawn.append(drawn_text(MARGIN, y + 70, told, NOTE_SIZE, FAINT, anchor="start"))
    return drawn


def drawing() -> str:
    """The SVG file as text. Raises ValueError if a text does not fit or boxes overlap."""
    for one, other in combinations(BOXES, 2):
        if one.overlaps(other):
            raise ValueError(f"{one.title!r} overlaps {other.title!r}")
    heads = ((C1, 38, "Writes"), (C2, R1 - 10, "Threads"), (C3, 38, "Reads"), (C4 + 14, 38, "Other processes"))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="{SANS}">',
        "<title>Rooms, files and data flow of flightlog</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse">'
        f'<path d="M 0 0.5 L 7.5 4 L 0 7.5 z" fill="{ARROW}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}" stroke="#d0d7de"/>',
        f'<rect x="{C4}" y="{R0 - 4}" width="{W4}" height="418" rx="8" fill="none" stroke="#9aa4af" '
        'stroke-dasharray="6 5"/>',
        f'<rect x="{C1}" y="{FOLDER_Y}" width="{C4 + W4 - C1}" height="{FILES_Y + FILES_HEIGHT + 10 - FOLDER_Y}" '
        f'rx="8" fill="{FILES.fill}" stroke="{FILES.line}"/>',
        drawn_text(C4 + W4 - 10, FOLDER_Y + 23, "The store: one directory", TEXT_SIZE, INK, anchor="end", bold=True),
        *(drawn_text(x, y, head, TITLE_SIZE, FAINT, anchor="start", bold=True) for x, y, head in heads),
    ]
    for box in BOXES:
        lines += box.draw()
    for arrow in ARROWS:
        lines += arrow.draw()
    lines += _floors()
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("architecture.svg").write_text(drawing())
