"""Streaming queries in a process of their own, which others kill: every message of a store goes to a sink.

Started with a JSON object: `store` is a folder, `queries` what the source is given, by the name of each query, and
`folder` where each has its checkpoint and its sink. `availableNow` true: it ends when it has read what there is; else
it goes on until it is killed. `dieAfter` 3: it kills itself, and Spark with it, when the third batch of this run is in
its sink and before Spark can note that.

A sink is idempotent: a batch is one file, made whole or not at all. A batch that comes again must be the same one.
A line is printed for every batch.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from pyspark.errors.exceptions.captured import StreamingQueryException

import flightlog.spark
from flightlog.tests.support.slow_streams import TOO_SLOW

COLUMNS = ("physicalOffset", "size", "topic", "partition", "offset", "value")
NARROW = {"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "2"}


def main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    spark = flightlog.spark.session("stream", master="local[2]", conf=NARROW)
    batches = 0

    def keeper(sink: Path) -> Callable[[Any, int], None]:
        sink.mkdir(parents=True, exist_ok=True)

        def keep(frame: Any, number: int) -> None:
            nonlocal batches
            rows = frame.select(*COLUMNS).collect()
            lines = sorted([*row[:-1], hashlib.sha1(row.value).hexdigest()] for row in rows)
            write_once(sink / f"{number:08d}", "".join(json.dumps(line) + "\n" for line in lines).encode())
            line = json.dumps({"query": sink.parent.name, "batch": number, "rows": len(lines)}).encode() + b"\n"
            os.write(1, line)  # whole: the other query tells of its batches, too
            batches += bool(lines)
            if batches == told.get("dieAfter"):
                os.killpg(0, signal.SIGKILL)

        return keep

    def run(name: str, options: dict[str, str]) -> None:
        folder = Path(told["folder"]) / name
        source = spark.readStream.format("flightlog").options(columns=",".join(COLUMNS), **options)
        writer = source.load(told["store"]).writeStream.foreachBatch(keeper(folder / "sink"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.trigger(availableNow=True) if told.get("availableNow") else writer
        while True:
            query = writer.start()
            try:
                query.awaitTermination()
                return
            except StreamingQueryException as e:
                if TOO_SLOW not in str(e):
                    raise
                print(f"{name}: {TOO_SLOW}; the query is started again", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(len(told["queries"])) as pool:
        ended = [pool.submit(run, name, options) for name, options in told["queries"].items()]
        wait(ended, return_when=FIRST_EXCEPTION)
        if any(each.exception() for each in ended if each.done()):
            traceback.print_exception(next(each.exception() for each in ended if each.done() and each.exception()))
            sys.stderr.flush()
            os._exit(1)  # with the other query


def write_once(path: Path, content: bytes) -> None:
    if path.exists():
        assert path.read_bytes() == content, f"{path}: the batch came again, and is another one"
        return
    aside = path.with_suffix(".aside")
    aside.write_bytes(content)
    aside.rename(path)


if __name__ == "__main__":
    main()
