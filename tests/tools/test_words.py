"""Numbers and names as people read them, and the bar that is drawn beside them."""

from __future__ import annotations

import pytest

from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.words import count_text, printable, seconds_text, size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1 << 30, "1 GiB"),
        (5 << 50, "5,120 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_counts() -> None:
    assert count_text(1, "queue") == "1 queue"
    assert count_text(1234, "queue") == "1,234 queues"
    assert count_text(2, "queue entry", "queue entries") == "2 queue entries"


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [(0, "never"), (-5, "never"), (1_700_000_000_999, "2023-11-14 22:13:20 UTC"), (1 << 62, f"{1 << 62} ms")],
)
def test_times(timestamp_ms: int, text: str) -> None:
    assert time_text(timestamp_ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0004, "0 ms"), (0.041, "41 ms"), (3.21, "3.2 s"), (59.99, "60.0 s"), (75, "1 min 15 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_foreign_names_cannot_move_the_cursor() -> None:
    assert printable("订单-é") == "订单-é"
    assert printable("a\x1b[2Jb\n\udcff\u202e") == "a\\x1b[2Jb\\n\\udcff\\u202e"


def test_the_bar_shows_how_far_it_is() -> None:
    bar = ProgressBar("reading", 200)
    bar.done = 50
    assert bar.line(0).startswith("  [######..................]  25% reading, ")
    bar.done = 900
    assert "100%" in bar.line(0)
    assert ProgressBar("counted", 10, lambda: 5).line(0).startswith("  [############............]  50% counted")
    assert [ProgressBar("waiting").line(turn)[:12] for turn in (0, 1)] == ["  | waiting,", "  / waiting,"]


def test_the_bar_is_silent_where_stderr_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("reading", 2) as bar:
        bar.done = 1
    assert capfd.readouterr() == ("", "")
