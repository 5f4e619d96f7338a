"""Stores that RocketMQ wrote, fresh ones and golden ones, and what RocketMQ says when it is asked about copies of them.

Fresh stores come from the seed of the run, FLIGHTLOG_SEED.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flightlog
from flightlog.tests.interop import asking, harness
from flightlog.tests.interop.asking import Case, Question
from flightlog.tests.interop.grid import Grid
from flightlog.tests.interop.harness import Geometry, Line, QueueName, RocketMq

if TYPE_CHECKING:
    Pairs = list[tuple[Any, Any]]

KINDS = ("gets", "absent", "times", "queries", "timed_queries", "estimates", "looks")
DIFFERENT_KINDS = ("past_the_end", "first_keys")  # where answers may differ
FAR_GETS = "far_gets"  # asked where nothing counts as in memory
NOTHING_IN_MEMORY = "accessMessageInMemoryMaxRatio"

# What RocketMQ does with its own defaults: the harness lifts them for its other programs.
BATCH_LIMITS = {
    "maxTransferCountOnMessageInMemory": "32",
    "maxTransferBytesOnMessageInMemory": str(256 << 10),
    "maxTransferCountOnMessageInDisk": "8",
    "maxTransferBytesOnMessageInDisk": str(64 << 10),
}

SMALL: Geometry = {"segment_size": 128 << 10, "queue_entries": 50, "index_slots": 100, "index_entries": 400}
FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch", "types", "delay", "skewed", "collide", "keys")
VARIED: Mapping[str, Any] = {
    **SMALL,
    "queues": 3,
    "orders": 30,
    "body_min": 0,
    "body_max": 40_000,
    "features": FEATURES,
}
FRESH: Mapping[str, Mapping[str, Any]] = {
    "fresh-clean": {**VARIED, "count": 900, "pause_every": 130, "pause_ms": 1300},
    "fresh-halted": {**VARIED, "count": 500, "pause_every": 100, "pause_ms": 1200, "halt": True},
    "fresh-lagging": {**VARIED, "count": 500, "pause_every": 240, "pause_ms": 1200, "halt": True, "lag": 120},
    # RocketMQ's recovery starts in the middle, behind the keys of an index file that it throws away.
    "fresh-late": {
        **SMALL, "segment_size": 64 << 10, "index_entries": 40_000, "count": 600, "queues": 2, "body_max": 3000,
        "halt": True, "pause_every": 60, "pause_ms": 2000, "config": {
            "flushCommitLogThoroughInterval": "300", "flushConsumeQueueThoroughInterval": "300",
        },
    },
    # Pauses where an index file is full: 50 keys and 50 more.
    "fresh-rolls": {
        **SMALL, "index_entries": 51, "count": 60, "keys_each": 5, "body_max": 100, "pause_every": 10, "pause_ms": 1300,
        "seed": 9,
    },
    # Its only queue fills two files to the last entry; an empty third one is added.
    "fresh-empty-file": {**SMALL, "count": 100, "topics": ("full",), "queues": 1, "body_max": 100},
    # Long enough for the limits of a get's scan (800 entries) and of an estimate's (5,000 matches, 20,000 entries).
    "fresh-long": {
        **SMALL, "segment_size": 1 << 20, "queue_entries": 7000, "count": 24_000, "topics": ("long",), "queues": 1,
        "body_max": 40, "features": ("collide",), "index_slots": 5000, "index_entries": 20_000,
    },
}  # fmt: skip

GOLDEN = (
    *("abort", "abort-cqlag", "abort-crcflip", "abort-late", "abort-reopen", "abort-torn", "batch-bcq", "clean-cqlag"),
    *("clean-crcflip", "cqext", "default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover"),
    *("v1-clean", "v2-v6"),
)
COMMITTED = ("rocketmq-collisions", "rocketmq-index-behind", "rocketmq-phantoms")
GOLDEN_CONFIG: Mapping[str, Mapping[str, Any]] = {
    "cqext": {"config": {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "65536"}},
    "lmq": {"config": {"enableLmq": "true", "enableMultiDispatch": "true"}},
    "batch-bcq": {"batch_topics": ("T108_Batch_bcq",), "config": {"mapperFileSizeBatchConsumeQueue": "4600"}},
}


@dataclass(frozen=True)
class Asked:
    """A store with what RocketMQ answered: by kind, each question with its answer."""

    case: Case
    bounds: dict[QueueName, tuple[int, int]]
    pairs: dict[str, Pairs]


def run_seed() -> int:
    return int(os.environ["FLIGHTLOG_SEED"])  # tests/conftest.py chooses it


def fresh_case(rocketmq: RocketMq, name: str, folder: Path) -> Case:
    options = {"seed": run_seed() % 1_000_000_007, **FRESH[name]}
    lines = rocketmq.write_store(folder / name, **options)
    if name == "fresh-empty-file":
        (folder / name / "consumequeue" / "full" / "0" / f"{100 * 20:020d}").write_bytes(bytes(50 * 20))
    geometry: Geometry = {size: options[size] for size in SMALL}  # type: ignore[assignment]
    return _case(name, folder / name, lines, geometry)


def golden_case(name: str, root: Path, part: str = "store") -> Case:
    """`part` is a folder of the set."""
    manifests = [root / manifest for manifest in ("manifest-1.jsonl", "manifest.jsonl")]
    texts = [line for manifest in manifests if manifest.exists() for line in manifest.read_text().splitlines()]
    lines: list[Line] = [json.loads(text) for text in texts]
    put = [line for line in lines if line["type"] == "msg" and line["status"] == "PUT_OK"]
    first_kept = min(int(path.name) for path in (root / part / "commitlog").iterdir())
    # What a later session wrote over the place of a torn record counts.
    there: dict[int, Line] = {line["commitLogOffset"]: line for line in put if line["commitLogOffset"] >= first_kept}
    torn = json.loads((root / "torn.json").read_text())["tornMessageOffset"] if (root / "torn.json").exists() else None
    if torn is not None and there[torn] is put[-1]:
        del there[torn]
    sizes = next(line for line in lines if line["type"] == "store")
    geometry: Geometry = {
        "segment_size": sizes["cl"],
        "queue_entries": sizes["cqBytes"] // 20,
        "index_slots": sizes["slots"],
        "index_entries": sizes["idx"],
        **GOLDEN_CONFIG.get(name, {}),  # type: ignore[typeddict-item]
    }
    return _case(name, root / part, [there[offset] for offset in sorted(there)], geometry)


def _case(name: str, path: Path, lines: list[Line], geometry: Geometry) -> Case:
    case: Case = asking.Case(name, path, lines, geometry)
    return case


def ask(
    rocketmq: RocketMq,
    cases: Sequence[Case],
    make_grid: Callable[..., Grid],
    copy: Callable[[Path, str], Path],
) -> dict[str, Asked]:
    """One process of RocketMQ answers for all of them, at copies that `copy` makes of a store under a name.

    `make_grid(case, bounds)` chooses the questions.
    """
    asked: list[dict[str, list[Question]]] = []
    jobs = []
    for case in cases:
        with flightlog.open_read_only(case.path) as view:
            # Where RocketMQ answers batches, flightlog answers their messages: those queues are compared elsewhere.
            batch_topics = case.geometry.get("batch_topics", ())
            grid = make_grid(
                case, {queue: bounds for queue, bounds in view.queues().items() if queue[0] not in batch_topics}
            )
        kinds = {kind: getattr(grid, kind)() for kind in (*KINDS, *DIFFERENT_KINDS)}
        kinds["set"] = [asking.Set(NOTHING_IN_MEMORY, 0)]
        kinds[FAR_GETS] = grid.gets()[::4]
        asked.append(kinds)
        words = [question.words() for questions in kinds.values() for question in questions]
        config = {**BATCH_LIMITS, **case.geometry.get("config", {})}
        jobs.append(harness.Questions(copy(case.path, case.name), words, {**case.geometry, "config": config}))
    found = {}
    for case, kinds, answers in zip(cases, asked, rocketmq.ask(jobs, timeout_s=600), strict=True):
        lines = iter(answers.lines)
        pairs = {kind: [(q, _theirs(q, next(lines))) for q in questions] for kind, questions in kinds.items()}
        assert next(lines, None) is None
        found[case.name] = Asked(case, answers.bounds, pairs)
    return found


def _theirs(question: Question, line: Line) -> Any:
    """An exception of RocketMQ's is an answer, too."""
    is_answer = line["type"] != "failure" or question.words()[0] == "look"
    return question.theirs(line) if is_answer else ("failure", line["what"])


def write_fresh(rocketmq: RocketMq, folder: Path) -> list[Case]:
    """All of them, two processes at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda name: fresh_case(rocketmq, name, folder), FRESH))
