"""A streaming query in a process of its own, which others kill: every message of a store goes to a sink.

Started with a JSON object: `store`, `checkpoint` and `sink` are folders, `options` what the source is given.
`availableNow` true: it ends when it has read what there is; else it goes on until it is killed. `dieAfter` 3: it kills
itself, and Spark with it, when the third batch of this run is in the sink and before Spark can note that.

The sink is idempotent: a batch is one file, made whole or not at all. A batch that comes again must be the same one.
A line is printed for every batch, and "started" once the query runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import flightlog.spark

COLUMNS = ("physicalOffset", "size", "topic", "partition", "offset", "value")
NARROW = {"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "2"}


def main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    sink = Path(told["sink"])
    sink.mkdir(parents=True, exist_ok=True)
    spark = flightlog.spark.session("stream", master="local[2]", conf=NARROW)
    options = {"columns": ",".join(COLUMNS), **told["options"]}
    messages = spark.readStream.format("flightlog").options(**options).load(told["store"])
    batches = 0

    def keep(frame: Any, number: int) -> None:
        nonlocal batches
        lines = sorted(
            [*row[:-1], hashlib.sha1(row.value).hexdigest()] for row in frame.select(*COLUMNS).toLocalIterator()
        )
        write_once(sink / f"{number:08d}", "".join(json.dumps(line) + "\n" for line in lines).encode())
        print(json.dumps({"batch": number, "rows": len(lines)}), flush=True)
        batches += 1
        if batches == told.get("dieAfter"):
            os.killpg(0, signal.SIGKILL)

    writer = messages.writeStream.foreachBatch(keep).option("checkpointLocation", told["checkpoint"])
    query = (writer.trigger(availableNow=True) if told.get("availableNow") else writer).start()
    print(json.dumps({"started": query.id}), flush=True)
    query.awaitTermination()


def write_once(path: Path, content: bytes) -> None:
    if path.exists():
        assert path.read_bytes() == content, f"{path}: the batch came again, and is another one"
        return
    aside = path.with_suffix(".aside")
    aside.write_bytes(content)
    aside.rename(path)


if __name__ == "__main__":
    main()
