"""`python spark_rows.py STORE...`: all rows of each store, by Spark, as sorted lines of JSON, and a line `--`."""

from __future__ import annotations

import sys

import flightlog.spark


def main() -> None:
    session = flightlog.spark.session("rows of folders", master="local[1]", conf={"spark.ui.enabled": "false"})
    for path in sys.argv[1:]:
        frame = session.read.format("flightlog").load(path)
        print(*sorted(frame.toJSON().collect()), sep="\n")
        print("--")
    session.stop()


if __name__ == "__main__":
    main()
