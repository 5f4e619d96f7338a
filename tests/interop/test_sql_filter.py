"""SQL92 filters decide as RocketMQ's own, on random expressions and messages."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flightlog.index.filter.invalid_filter import InvalidFilterError
from flightlog.index.filter.sql_parser import parse
from flightlog.index.filter.sql_values import NotComparableError
from flightlog.tests.interop import harness
from flightlog.tests.interop.cases import run_seed
from flightlog.tests.interop.filters import some_filter, some_message
from flightlog.tests.support.sql_vectors import VECTORS, message_of

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.interop.harness import RocketMq

EXPRESSIONS = {"ci": 30_000, "full": 100_000}
MESSAGES_EACH = 5
LIMIT_S = 300
LETTERS = {True: "T", False: "F", None: "N"}


def ask(rocketmq: RocketMq, folder: Path, questions: list[tuple[str, list[dict[str, str]]]]) -> list[dict[str, Any]]:
    """The answers of FilterProgram.java."""
    jobs = folder / "jobs"
    with jobs.open("w", encoding="ascii") as out:
        for expression, messages in questions:
            words = ["&".join(f"{quote(name)}={quote(value)}" for name, value in one.items()) for one in messages]
            out.write("\t".join((quote(expression), *words)) + "\n")
    command = rocketmq.command(str(folder), "filter", {"jobs": jobs})
    finished = subprocess.run(
        command, cwd=folder, env=harness.java_environment(), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return [json.loads(line) for line in finished.stdout.splitlines()]


def verdicts(expression: str, messages: list[dict[str, str]]) -> str:
    try:
        evaluate = parse(expression).evaluate
    except InvalidFilterError:
        return "R"

    def verdict(properties: Mapping[str, str]) -> str:
        try:
            value = evaluate(properties)
        except NotComparableError:
            return "E"
        assert value is None or isinstance(value, bool)
        return LETTERS[value]

    return "".join(map(verdict, messages))


def test_the_vectors_are_rocketmqs(rocketmq: RocketMq, tmp_path: Path) -> None:
    answers = ask(rocketmq, tmp_path, [(row[0], [message_of(row)]) for row in VECTORS])
    assert [(row[0], row[1], answer["of"]) for row, answer in zip(VECTORS, answers, strict=True)] == VECTORS
    assert all(answer["isWhole"] for answer in answers)


def test_filters_decide_as_rocketmqs(rocketmq: RocketMq, tmp_path: Path, scale: Scale) -> None:
    """What RocketMQ reads only the beginning of is refused here; see docs/compatibility.md."""
    rng, expressions = random.Random(run_seed() if scale.full else 533), scale.pick(**EXPRESSIONS)
    questions = [(some_filter(rng), [some_message(rng) for _ in range(MESSAGES_EACH)]) for _ in range(expressions)]
    count: Counter[str] = Counter()
    differing = []
    for (expression, messages), answer in zip(questions, ask(rocketmq, tmp_path, questions), strict=True):
        theirs = answer["of"] if answer["isWhole"] else "R"
        count.update(theirs)
        count["cut short"] += answer["of"] != "R" and not answer["isWhole"]
        if verdicts(expression, messages) != theirs:
            differing.append((expression, messages, theirs, verdicts(expression, messages)))
    assert not differing, (len(differing), min(differing, key=lambda found: len(found[0])))
    assert all(count[kind] > expressions / 100 for kind in ("T", "F", "N", "E", "R", "cut short")), count
    assert count["T"] + count["F"] + count["N"] + count["E"] + MESSAGES_EACH * count["R"] == expressions * MESSAGES_EACH
