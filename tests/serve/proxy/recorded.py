"""What RocketMQ's proxies answered: `answers-VERSION.txt`, one question a line."""

from __future__ import annotations

from pathlib import Path

VERSIONS = ("5.3.3", "5.5.0")
ARROW = " -> "


def path_of(version: str) -> Path:
    return Path(__file__).with_name(f"answers-{version}.txt")


def recorded(version: str) -> dict[str, str]:
    """Question -> answer."""
    found: dict[str, str] = {}
    for line in path_of(version).read_text().splitlines():
        name, _, text = line.partition(ARROW)
        found[name] = text
    return found


def record(version: str, answers: dict[str, str]) -> None:
    path_of(version).write_text("".join(f"{name}{ARROW}{text}\n" for name, text in answers.items()))
