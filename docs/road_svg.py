"""Draws docs/road.svg: how a store's folder goes to RocketMQ's brokers and comes back.

    python -P docs/road_svg.py

writes it; only Python is needed. Boxes and arrows are those of docs/architecture_svg.py. A text that does not fit its
box, or two boxes that overlap, raise ValueError; `tests/house/test_documents.py` compares the committed picture.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from flightlog.docs.architecture_svg import (
    ARROW,
    CALLER,
    CONSUME,
    ENGINE,
    FAINT,
    MARGIN,
    PAPER,
    SANS,
    SCHEDULE,
    STORE,
    TITLE_SIZE,
    TOOLS,
    Arrow,
    Box,
    drawn_text,
)

WIDTH, HEIGHT = 1120, 372
LEFT, MIDDLE, RIGHT, LAST = 16, 266, 566, 876
"""Left edges of the columns: before, the hand-over, RocketMQ, its clients."""

PROGRAM = Box(LEFT, 56, 190, 62, "Your program", ("flightlog.open,", "flightlog serve"), CALLER)
FOLDER = Box(LEFT, 186, 190, 62, "./store", ("one folder,", "closed or killed"), STORE)
CHECK = Box(
    MIDDLE,
    56,
    230,
    80,
    "handover check",
    ("sizes, retention, names,", "damage, broker name:", "what no broker takes"),
    TOOLS,
)
CONF = Box(MIDDLE, 186, 230, 62, "handover broker-conf", ("the conf that fits", "this very store"), TOOLS)
SEED = Box(MIDDLE, 290, 230, 62, "handover seed", ("a copy for a slave,", "without holes filled"), TOOLS)
NAMES = Box(RIGHT, 56, 240, 62, "Name server, controller", ("who is the master;", "another one if it dies"), SCHEDULE)
MASTER = Box(RIGHT, 186, 240, 62, "Broker: the master", ("starts on the folder", "as it is"), ENGINE)
SLAVE = Box(RIGHT, 290, 240, 62, "Slaves", ("seeded; under a controller", "they may begin empty"), ENGINE)
PROXY = Box(LAST, 56, 228, 62, "Proxy", ("gRPC clients", "of every language"), CONSUME)
CLIENTS = Box(LAST, 186, 228, 62, "Java clients", ("groups go on", "at their offsets"), CONSUME)
BOXES = (PROGRAM, FOLDER, CHECK, CONF, SEED, NAMES, MASTER, SLAVE, PROXY, CLIENTS)

BACK_Y = 270
ARROWS = (
    Arrow(((PROGRAM.middle, PROGRAM.bottom), (PROGRAM.middle, FOLDER.y)), "close", (PROGRAM.middle + 8, 156)),
    Arrow(((FOLDER.right, 204), (FOLDER.right + 22, 204), (FOLDER.right + 22, 96), (CHECK.x, 96))),
    Arrow(((FOLDER.right, 217), (CONF.x, 217))),
    Arrow(((FOLDER.right, 230), (FOLDER.right + 22, 230), (FOLDER.right + 22, 321), (SEED.x, 321))),
    Arrow(((CHECK.middle, CHECK.bottom), (CHECK.middle, CONF.y)), "fit", (CHECK.middle + 8, 164)),
    Arrow(((CONF.right, 210), (MASTER.x, 210)), "start", (CONF.right + 16, 202)),
    Arrow(((SEED.right, 321), (SLAVE.x, 321)), "slave.conf", (SEED.right + 4, 313)),
    Arrow(((MASTER.middle, MASTER.y), (MASTER.middle, NAMES.bottom)), "registers", (MASTER.middle + 8, 156)),
    Arrow(((MASTER.middle, MASTER.bottom), (MASTER.middle, SLAVE.y)), "replicates", (MASTER.middle + 8, 274)),
    Arrow(((MASTER.right, 217), (CLIENTS.x, 217)), both=True),
    Arrow(((MASTER.right, 200), (840, 200), (840, 88), (PROXY.x, 88)), both=True),
    Arrow(
        ((MASTER.x, 236), (530, 236), (530, BACK_Y), (60, BACK_Y), (60, FOLDER.bottom)),
        "back: stop it, or kill -9; open, verify",
        (MIDDLE + 8, BACK_Y - 6),
        dashed=True,
    ),
)
HEADS = ((LEFT, "flightlog"), (MIDDLE, "The hand-over"), (RIGHT, "RocketMQ"), (LAST, "Clients"))


def drawing() -> str:
    """The SVG file as text. Raises ValueError if a text does not fit or boxes overlap."""
    for one, other in combinations(BOXES, 2):
        if one.overlaps(other):
            raise ValueError(f"{one.title!r} overlaps {other.title!r}")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="{SANS}">',
        "<title>From a store to RocketMQ's brokers and back</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse">'
        f'<path d="M 0 0.5 L 7.5 4 L 0 7.5 z" fill="{ARROW}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}" stroke="#d0d7de"/>',
        *(drawn_text(x, MARGIN + 22, head, TITLE_SIZE, FAINT, anchor="start", bold=True) for x, head in HEADS),
    ]
    for box in BOXES:
        lines += box.draw()
    for arrow in ARROWS:
        lines += arrow.draw()
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("road.svg").write_text(drawing())
