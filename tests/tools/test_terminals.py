"""What a terminal shows, and one that can little: no colour with NO_COLOR, nothing but text with TERM=dumb."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.docs.screens_svg import SCREENS, make_stores, printed, terminal
from flightlog.tools.app import app
from flightlog.tools.output import TERMINAL_ROWS_MAX
from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.typed_values import parse_size

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)(?:;\d+)*m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example store of docs/tools.md. Only read."""
    folder = tmp_path_factory.mktemp("screens")
    make_stores(folder)
    return folder


@pytest.mark.parametrize("command", SCREENS.values())
def test_a_terminal_gets_no_more_than_it_can_show(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for columns in (40, 80, 120):
        lines = re.sub("\x1b[^m]*m", "", printed(command, columns)).splitlines()
        too_long = [line for line in lines if len(line.rstrip()) > columns]
        assert not too_long or columns == 40, too_long
    assert app(command.split(), standalone_mode=False) in (None, 0, 1)
    assert "\x1b" in printed(command, 80) or command.startswith(("verify", "repair"))
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("call", [["topics", "store"], ["info", "store"], ["--help"], ["cat", "--help"]])
def test_no_color_and_dumb_terminals_are_heeded(folder: Path, call: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for environment, unwanted in (({"NO_COLOR": "1"}, COLOUR), ({"TERM": "dumb"}, re.compile("\x1b"))):
        with terminal(80, **environment) as shown:
            app(call, standalone_mode=False)
        assert shown.text() and not unwanted.search(shown.text())


def test_the_rows_in_the_middle_are_counted_on_a_terminal_and_printed_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for number in range(TERMINAL_ROWS_MAX + 7):
            store.create_topic(f"topic-{number}", 1)
    with terminal(120) as shown:
        app(["topics", str(tmp_path / "store")], standalone_mode=False)
    assert "7 rows in the middle left out: a pipe or --json gets all" in shown.text()
    app(["topics", str(tmp_path / "store")], standalone_mode=False)
    printed_lines = capsys.readouterr().out.splitlines()
    assert sum(line.split()[-1].startswith("topic-") for line in printed_lines if line) == TERMINAL_ROWS_MAX + 7


def typed(folder: Path, *arguments: str, **environment: str) -> bytes:
    """What a real terminal of 80 columns gets on stdout and stderr."""
    controller, replica = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "flightlog", *arguments],
        cwd=folder,
        stdin=replica,
        stdout=replica,
        stderr=replica,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(replica)
        parts = []
        while True:
            try:
                part = os.read(controller, 1 << 16)
            except OSError:  # Linux's answer when the last writer has closed it
                break
            if not part:
                break
            parts.append(part)
        assert process.wait() in (0, 1)
    os.close(controller)
    return b"".join(parts)


def test_a_real_terminal_shows_what_the_pictures_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert typed(folder, "topics", "store").decode().replace("\r\n", "\n") == printed("topics store", 80)


@pytest.mark.parametrize(("name", "is_drawn"), [("xterm", True), ("dumb", False)])
def test_the_bar_is_drawn_where_its_line_can_be_erased(
    name: str, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", name)
    with terminal(80) as shown:
        monkeypatch.setattr(sys, "stderr", shown)
        monkeypatch.setenv("TERM", name)
        with ProgressBar("reading", 2):
            pass
    assert shown.text().endswith("\r\x1b[K") == is_drawn


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("512", 512), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2tib", 2 << 40), ("7 bytes", 7)]
)
def test_sizes_are_typed_with_a_unit(text: str, size: int) -> None:
    assert parse_size("--keep-bytes", text) == size


@pytest.mark.parametrize("text", ["", "-1", "10GB", "1e3", "GiB", "1 KiB 2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match="expected bytes, or a size with a unit such as 512MiB"):
        parse_size("--keep-bytes", text)
