"""Options and paths: what is taken, and what a wrong one is told, by Spark too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.store.errors import InvalidSettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Load = Callable[..., DataFrame]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as opened:
        opened.put(Message("orders", b"created"))
    return tmp_path / "store"


@pytest.mark.ci
def test_wrong_calls_are_named_by_spark(store: Path, load: Load, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=f"StoreNotFoundError: {tmp_path}/none: no such folder"):
        load(tmp_path / "none")
    with pytest.raises(Exception, match=f"StoreNotFoundError: {tmp_path}: no commitlog/ in it"):
        load(tmp_path)
    with pytest.raises(Exception, match="option 'splitbyte': unknown; expected one of path, paths, "):
        load(store, splitByte=1)
    with pytest.raises(Exception, match=r"no path: expected spark\.read"):
        spark.read.format("flightlog").load()
    with pytest.raises(Exception, match=f"StoreNotFoundError: {tmp_path}/none: no such folder"):
        spark.read.format("flightlog").load([str(store), str(tmp_path / "none")])
    reader = spark.read.format("flightlog")
    with pytest.raises(Exception, match="column 'topic': the schema says int, expected string"):
        reader.schema("topic int").load(str(store)).count()
    with pytest.raises(Exception, match="column 'subject': a store has no such column, but key, value, topic"):
        reader.schema("subject string").load(str(store)).count()
    with pytest.raises(Exception, match="columns='value' beside a schema of topic"):
        reader.schema("topic string").option("columns", "value").load(str(store)).count()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no path"),
        ({"path": ""}, "no path"),
        ({"path": "file://elsewhere/store"}, "expected a local or mounted folder"),
        ({"path": "/s", "splitBytes": "1m"}, "splitBytes='1m': expected a whole number of bytes, 4096 or more"),
        ({"path": "/s", "splitBytes": "4095"}, "splitBytes='4095'"),
        ({"path": "/s", "splitBytes": "-5000"}, "splitBytes='-5000'"),
        ({"path": "/s", "splitBytes": "²²²²"}, "splitBytes='²²²²'"),
        ({"path": "/s", "onCorrupt": "ignore"}, "onCorrupt='ignore': expected fail, skip or rows"),
        ({"path": "/s", "includeInternal": "yes"}, "includeInternal='yes': expected true or false"),
        ({"path": "/s", "includeHeaders": "1"}, "includeHeaders='1': expected true or false"),
        ({"path": "/s", "decompress": "zlib"}, "decompress='zlib': expected true or false"),
        ({"path": "/s", "columns": "topic,headers"}, "'headers': only the option includeHeaders=true adds it"),
        ({"path": "/s", "columns": "topic,_corrupt"}, "'_corrupt': only the option onCorrupt=rows adds it"),
        ({"path": "/s", "columns": "topic", "onCorrupt": "rows"}, "onCorrupt=rows without the column _corrupt"),
        ({"path": "/s", "columns": "topic,topic"}, "columns='topic,topic': a column is named twice"),
        ({"path": "/s", "columns": ""}, "column '': a store has no such column"),
        ({"path": "/s", "columns": "topic,body"}, "column 'body': a store has no such column"),
        ({"path": "/s", "pathGlobFilter": "*"}, "option 'pathglobfilter': unknown"),
    ],
)
def test_wrong_options_say_what_was_expected(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        parse_options(options)
    assert said in str(caught.value)


@pytest.mark.parametrize("step", ["schema()", "reader(StructType()).partitions()"])
def test_a_process_that_plans_sets_its_modules_aside(store: Path, step: str) -> None:
    """Spark's daemon collects garbage after every call, which takes 30 ms with all of them and 2 without."""
    program = (
        "import gc, sys\nfrom pyspark.sql.types import StructType\nfrom flightlog.spark.source import DefaultSource\n"
        f"DefaultSource({{'path': sys.argv[1]}}).{step}\nprint(gc.get_freeze_count())"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", program, str(store)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) > 10_000


def test_right_options() -> None:
    def path(**options: str) -> Path:
        [store] = parse_options(options).stores
        return store.path

    assert path(path="/s") == Path("/s")
    assert path(PATH="file:///s%20t/u") == Path("/s t/u")
    assert path(path="file:/s%25") == Path("/s%")
    assert path(path="/s%25") == Path("/s%25")
    assert path(path="s/../t") == Path.cwd() / "t"
    every = {
        "path": "/s",
        "columns": "Value, KEY",
        "includeinternal": "TRUE",
        "oncorrupt": "Skip",
        "includeHeaders": "true",
        "DECOMPRESS": "True",
        "splitbytes": " 4096",
    }
    options = parse_options(every)
    assert (options.columns, options.include_internal) == (("value", "key"), True)
    assert (options.on_corrupt, options.split_bytes) == ("skip", 4096)
    assert (options.include_headers, options.decompress) == (True, True)
    plain = [column.name for column in parse_options({"path": "/s"}).shown]
    with_all = [column.name for column in parse_options({**every, "onCorrupt": "Rows", "columns": "_CORRUPT"}).shown]
    assert with_all == [*plain, "headers", "_corrupt"]
