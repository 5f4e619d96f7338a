"""Staging and committing without Spark: what is refused, what is checked, and what is left when it ends badly."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.store_settings import SETTINGS
from flightlog.spark.options.write_options import NAMES, parse_write_options
from flightlog.spark.schema import SPARK_TYPES
from flightlog.spark.write import staging as staging_module
from flightlog.spark.write import writing
from flightlog.spark.write.staging import StagedFile, StagedParts, Stager, check_staged
from flightlog.spark.write.staging_folder import make_job_folder
from flightlog.spark.write.write_columns import PASSED_OVER, TYPES, WriteColumns
from flightlog.spark.write.writing import LEDGER_FILE, LogBatchWriter, WriteLedger, append_files
from flightlog.store.errors import (
    ConfigFileError,
    DamagedStoreError,
    DiskError,
    InvalidMessageError,
    InvalidSettingsError,
    InvalidTopicError,
    QueueNotFoundError,
    StoreLockedError,
    StoreNotFoundError,
    TopicTooLongError,
)
from flightlog.store.log.atomic_append import AtomicAppend
from flightlog.store.message_check import EmptyBodyError

if TYPE_CHECKING:
    from flightlog.tests.spark.conftest import AssertClean

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
SEGMENT_SIZE = 1 << 30


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(text: str) -> StructType:
    """Make a schema from words as in SQL, without a session."""
    types = SPARK_TYPES | {"array<struct<key:string,value:binary>>": HEADERS}
    pairs = [field.split(" ") for field in text.split(", ")]
    return StructType([StructField(name, types[kind]) for name, kind in pairs])


def batch(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def stage(job: Path, batches: list[Any], text: str, *, topic: str | None = None, partition: int = 0) -> StagedFile:
    columns = WriteColumns.of(schema(text), topic)
    job.mkdir(parents=True, exist_ok=True)
    found = Stager(columns, job, SETTINGS, SEGMENT_SIZE).stage(batches, partition)
    assert found is not None
    return found


def stager(job: Path) -> Stager:
    return Stager(WriteColumns.of(schema("value binary"), "t"), job, SETTINGS, SEGMENT_SIZE)


def bodies(path: Path) -> dict[tuple[str, int], list[bytes]]:
    with flightlog.open_read_only(path) as view:
        return {key: [message.body for message in view.read(*key)] for key, (_, end) in view.queues().items() if end}


@pytest.fixture
def files(tmp_path: Path) -> list[StagedFile]:
    """Two tasks' rows, of two topics."""
    first = batch(topic=["a", "b", "a"], value=[b"1", b"2", b"3"], partition=[0, 0, 0])
    second = batch(topic=["b", "b"], value=[b"4", b"5"], partition=[0, 1])
    text = "topic string, value binary, partition int"
    return [stage(tmp_path / "job", [each], text, partition=at) for at, each in enumerate((first, second))]


ROWS = {("a", 0): [b"1", b"3"], ("b", 0): [b"2", b"4"], ("b", 1): [b"5"]}
BEFORE = {("t", 0): [b"before"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        store.put(Message("t", b"before"))
    return tmp_path / "store"


# ---- what the driver refuses ----


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, 'no path: expected df.write.format("flightlog").mode("append").save'),
        ({"path": "/s", "topic": ""}, "topic='': expected the name of a topic"),
        ({"path": "/s", "stagingPath": ""}, "stagingPath='': expected a file or a folder"),
        ({"path": "hdfs://host/s"}, "path='hdfs://host/s': a store is written in a local or mounted folder alone"),
        ({"path": "/s", "splitBytes": "4096"}, "option 'splitbytes': unknown to a write; expected one of path, topic"),
        ({"path": "/s", "checkpointLocation": "/c"}, "option 'checkpointlocation': unknown"),
        ({"path": "/s", "rocketmqStrict": "no"}, "rocketmqStrict='no': expected true or false"),
    ],
)
def test_wrong_options_say_what_was_expected(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        parse_write_options(options)
    assert said in str(caught.value)


def test_right_options() -> None:
    options = parse_write_options({"PATH": "file:///a%20b", "stagingpath": "c/../d"})
    assert (options.root, options.topic, options.staging) == (Path("/a b"), None, Path.cwd() / "d")
    options = parse_write_options({"path": "/s", "topic": "t", "checkpointLocation": "/c"}, is_stream=True)
    assert (options.topic, options.staging) == ("t", Path("/s/flightlog/staging"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topic string", "no column 'value'"),
        ("value string", "no topic: expected a column 'topic'"),
        ("value string, topic string, Value binary", "column 'Value': it is there twice"),
        ("value int, topic string", "column 'value': int, expected binary or string"),
        ("value binary, topic binary", "column 'topic': binary, expected string"),
        ("value binary, topic string, timestamp bigint", "column 'timestamp': bigint, expected timestamp"),
        ("value binary, topic string, colour string", "column 'colour': a message has no such thing; expected some of"),
        (
            "value binary, topic string, properties map<string,string>, headers array<struct<key:string,value:binary>>",
            "columns 'headers' and 'properties'",
        ),
    ],
)
def test_wrong_columns_say_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        WriteColumns.of(schema(text), None)
    assert said in str(caught.value)


def test_a_store_that_is_open_and_a_folder_of_something_else_are_refused_before_any_task(tmp_path: Path) -> None:
    columns = schema("value string")
    with flightlog.open(tmp_path / "store", StoreSettings.small()), pytest.raises(StoreLockedError):
        LogBatchWriter(parse_write_options({"path": str(tmp_path / "store"), "topic": "t"}), columns)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").touch()
    with pytest.raises(StoreNotFoundError, match="not a flightlog store"):
        LogBatchWriter(parse_write_options({"path": str(tmp_path / "letters"), "topic": "t"}), columns)


def test_the_document_names_every_column_and_option() -> None:
    [text] = re.findall(r"^## Writing\n(.*?)(?=^## )", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"`(\w+)`", "".join(line for line in text.splitlines() if line.startswith("| `"))))
    assert TYPES.keys() | set(NAMES) <= told
    assert "offset" in PASSED_OVER and "value" not in PASSED_OVER


# ---- what tasks refuse ----

ROW_1 = r"^Spark partition 0, row 1 \(the first is 0\), "


@pytest.mark.parametrize(
    ("columns", "text", "kind", "said"),
    [
        ({"value": [b"x", None]}, "value binary", InvalidMessageError, ROW_1 + "topic 't', column 'value': no body"),
        (
            {"value": [b"x"], "topic": [None]},
            "value binary, topic string",
            InvalidMessageError,
            r"^Spark partition 0, row 0 \(the first is 0\), column 'topic': null",
        ),
        ({"value": [b"x"], "topic": ["t" * 200]}, "value binary, topic string", TopicTooLongError, "200 UTF-8 bytes"),
        (
            {"value": [b"x"], "key": ["a b"]},
            "value binary, key string",
            InvalidMessageError,
            "column 'key': key 'a b': a key is not",
        ),
        ({"value": [b"x"], "sysFlag": [4]}, "value binary, sysFlag int", InvalidMessageError, "a half message"),
        ({"value": [b"x"], "sysFlag": [0x81]}, "value binary, sysFlag int", InvalidMessageError, "inner batch"),
        (
            {"value": [b"x"], "partition": [-1]},
            "value binary, partition int",
            InvalidMessageError,
            "column 'partition': queue id -1",
        ),
    ],
)
def test_a_task_refuses_what_no_store_takes_and_leaves_no_file(
    columns: dict[str, Any], text: str, kind: type[Exception], said: str, tmp_path: Path
) -> None:
    topic = None if "topic" in columns else "t"
    with pytest.raises(kind, match=said):
        stage(tmp_path / "job", [batch(**columns)], text, topic=topic)
    assert list((tmp_path / "job").iterdir()) == []


@pytest.mark.parametrize(("topic", "partition"), [("made", 4), ("new", 64)])
def test_a_queue_that_the_topic_does_not_have_fails_the_job_and_appends_nothing(
    topic: str, partition: int, path: Path, tmp_path: Path
) -> None:
    """The hash of a key in place of a queue id is the classic."""
    with flightlog.open(path) as store:
        store.create_topic("made", 4)
    before = bodies(path)
    rows = batch(topic=["t", topic], value=[b"fine", b"x"], partition=[0, partition])
    staged = stage(tmp_path / "job", [rows], "topic string, value binary, partition int")
    with pytest.raises(QueueNotFoundError, match=ROW_1 + f"topic '{topic}', column 'partition': .*id {partition}\\b"):
        append_files(path, [staged], None, 0)
    assert bodies(path) == before


@pytest.mark.parametrize("turn", [0, None], ids=["every row has one", "some take turns"])
def test_a_commit_that_refuses_a_queue_names_the_row_as_spark_handed_it_over(
    turn: int | None, path: Path, tmp_path: Path
) -> None:
    """The commit knows the topics' queues, and the tasks' rows only as they were regrouped: no row was told."""
    with flightlog.open(path) as store:
        store.create_topic("b", 4)
    ids = [turn, 3] * 10_000
    ids[11_111], ids[12_345] = 77, 1_234_567
    rows = {"topic": ["a", "b"] * 10_000, "value": [b"x"] * 20_000, "Partition": ids}
    table = pa.table(rows, pa.schema([("topic", pa.string()), ("value", pa.binary()), ("Partition", pa.int64())]))
    text = "topic string, value binary, Partition bigint"
    files = [
        stage(tmp_path / "job", [batch(topic=["b"], value=[b"y"], Partition=[3])], text, partition=0),
        stage(tmp_path / "job", table.to_batches(max_chunksize=1000), text, partition=3),
    ]
    said = r"^Spark partition 3, row 12345 \(the first is 0\), topic 'b', column 'partition': .*id 1234567\b"
    with pytest.raises(QueueNotFoundError, match=said) as caught:
        append_files(path, files, None, 0)
    assert (caught.value.row, caught.value.column) == (12_345, "partition")
    assert bodies(path) == BEFORE


MAP = "map<string,string>"


@pytest.mark.parametrize("is_late", [False, True])
def test_an_error_names_the_row_as_spark_handed_it_over(
    is_late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are regrouped by topic before they are checked: row 12345 was told as 6172, and no column, topic or
    partition with it."""
    if is_late:  # when earlier rows have been written
        monkeypatch.setattr(staging_module, "STAGED_SIZE", 4 << 10)
    wrong: dict[str, tuple[str, Any, str]] = {
        "value": ("binary", None, "topic 'b', column 'value': no body"),
        "partition": ("int", -1, "topic 'b', column 'partition': queue id -1"),
        "tags": ("string", "a\x01b", "topic 'b', column 'tags': a property contains the byte 0x01"),
        "properties": (MAP, [("DELAY", "3")], "topic 'b', column 'properties': topic 'b': the property DELAY asks"),
        "topic": ("string", None, "column 'topic': null, expected the name of a topic"),
        "sysFlag": ("int", 4, "column 'sysFlag': a half message"),
    }
    for name, (kind, value, said) in wrong.items():
        columns: dict[str, list[Any]] = {"value": [b"x"] * 20_000, "topic": ["a", "b"] * 10_000}
        columns.setdefault(name, [None] * 20_000)[12_345] = value
        types = {"value": "binary", "topic": "string", name: kind}
        arrow = {
            "binary": pa.binary(),
            "string": pa.string(),
            "int": pa.int32(),
            MAP: pa.map_(pa.string(), pa.string()),
        }
        table = pa.table({each: pa.array(columns[each], arrow[types[each]]) for each in types})
        text = ", ".join(f"{each} {types[each]}" for each in types)
        with pytest.raises(InvalidMessageError) as caught:
            stage(tmp_path / "job", table.to_batches(max_chunksize=1000), text, partition=3)
        assert str(caught.value).startswith(f"Spark partition 3, row 12345 (the first is 0), {said}"), name
        assert caught.value.row == 12_345 and list((tmp_path / "job").iterdir()) == []


def test_a_task_that_dies_of_its_rows_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> Iterator[Any]:
        yield batch(value=[b"x"])
        raise RuntimeError("no such row")

    make_job_folder(tmp_path / "job")
    with pytest.raises(RuntimeError, match="no such row"):
        stager(tmp_path / "job").stage(rows(), 0)
    assert stager(tmp_path / "job").stage([], 0) is None
    assert list((tmp_path / "job").iterdir()) == [], "other tasks of the job write there"


# ---- what is appended ----


def test_rows_go_to_their_topics_in_order(files: list[StagedFile], path: Path, assert_clean: AssertClean) -> None:
    append_files(path, files, None, 0)
    assert bodies(path) == BEFORE | ROWS
    assert assert_clean(path).records == 6


def test_a_job_without_rows_makes_an_empty_store_and_leaves_another_alone(
    tmp_path: Path, path: Path, assert_clean: AssertClean
) -> None:
    append_files(tmp_path / "new", [], None, 0)
    assert assert_clean(tmp_path / "new").records == 0
    with flightlog.open(path, StoreSettings.small()):
        append_files(path, [], None, 0)  # nothing to append: the lock is not taken
    assert bodies(path) == BEFORE
    assert_clean(path)


def test_what_is_held_is_written_by_topic_in_few_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    monkeypatch.setattr(staging_module, "STAGED_SIZE", 4 << 10)
    batches = [
        batch(
            topic=[f"t{(i + k) % 7}" for k in range(10)], value=[b"%d " % (10 * i + k) + bytes(20) for k in range(10)]
        )
        for i in range(100)
    ]
    staged = stage(tmp_path / "job", batches, "topic string, value binary")
    with pa.OSFile(str(staged.path)) as file, pa.ipc.open_stream(file) as reader:
        assert 7 < sum(1 for _ in reader) < 200
    append_files(tmp_path / "store", [staged], None, 0)
    with flightlog.open_read_only(tmp_path / "store") as view:
        found = [(message.physical_offset, message) for key in view.queues() for message in view.read(*key)]
    for topic in range(7):
        numbers = [int(m.body.split()[0]) for _, m in sorted(found, key=lambda each: each[0]) if m.topic == f"t{topic}"]
        assert numbers == [10 * i + k for i in range(100) for k in range(10) if (i + k) % 7 == topic]
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("options", [{}, {"rocketmqStrict": "true"}, {"rocketmqStrict": "False"}])
def test_names_and_empty_bodies_that_clients_refuse(
    tmp_path: Path, options: dict[str, str], assert_clean: AssertClean
) -> None:
    settings = parse_write_options({"path": str(tmp_path / "store"), **options}).settings
    is_strict = options.get("rocketmqStrict") != "False"
    rows = {"topic": ["t", "t"], "value": [b"x", b""]}, {"topic": ["t.u"], "value": [b"x"]}
    columns = WriteColumns.of(schema("topic string, value binary"), None)
    (tmp_path / "job").mkdir()
    files: list[StagedFile | None] = []
    refusals = {0: (EmptyBodyError, ROW_1 + "topic 't', column 'value': the body is empty"), 1: None}
    for at, each in enumerate(rows):
        stager = Stager(columns, tmp_path / "job", settings, SEGMENT_SIZE)
        refused = refusals[at] if is_strict else None
        if refused is None:
            files.append(stager.stage([batch(**each)], at))
        else:
            with pytest.raises(refused[0], match=refused[1]):
                stager.stage([batch(**each)], at)
    staged = [file for file in files if file is not None]
    if is_strict:
        with pytest.raises(InvalidTopicError, match="rocketmq_strict=False"):
            append_files(tmp_path / "store", staged, None, 0, settings)
        assert bodies(tmp_path / "store") == {}
    else:
        append_files(tmp_path / "store", staged, None, 0, settings)
        assert bodies(tmp_path / "store") == {("t", 0): [b"x"], ("t", 1): [b""], ("t.u", 0): [b"x"]}
    assert_clean(tmp_path / "store")


def test_columns_of_every_kind(tmp_path: Path, assert_clean: AssertClean) -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"1"}], None, []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([zlib.compress(b"x"), b"y", b"z"]),
            pa.array([1, 0x20, None], pa.int32()),
            pa.array([b"k1", None, b"k3"]),
            headers,
            pa.array([7, None, 9], pa.int64()),
            pa.array([1000, None, 3000], pa.timestamp("us", "UTC")),
            pa.array(["", "tag", None]),
            pa.array([5, 6, 7], pa.int64()),
        ],
        names=["value", "sysFlag", "key", "headers", "flag", "timestamp", "tags", "offset"],
    )
    text = (
        "value binary, sysFlag int, key binary, headers array<struct<key:string,value:binary>>, flag bigint, "
        "timestamp timestamp, tags string, offset bigint"
    )
    append_files(tmp_path / "store", [stage(tmp_path / "job", [rows], text, topic="t")], None, 0)
    with flightlog.open_read_only(tmp_path / "store") as view:
        found = {m.decompressed_body(): m for key in view.queues() for m in view.read(*key)}
    x, y, z = found[b"x"], found[b"y"], found[b"z"]
    assert (x.sys_flag, y.sys_flag, z.sys_flag) == (1, 0, 0)
    assert (x.properties, y.properties) == ({"h": "1", "KEYS": "k1"}, {"TAGS": "tag"})
    assert (x.flag, y.flag, z.flag) == (7, 0, 9)
    assert (x.born_timestamp_ms, y.born_timestamp_ms, z.born_timestamp_ms) == (1, y.store_timestamp_ms, 3)
    assert_clean(tmp_path / "store")


# ---- what ends badly ----


def test_files_that_are_not_what_tasks_wrote_are_refused(files: list[StagedFile], path: Path) -> None:
    with open(files[1].path, "r+b") as file:
        file.seek(files[1].size // 2)
        file.write(b"\x55")
    with pytest.raises(DamagedStoreError, match="CRC32C"):
        append_files(path, files, None, 0)
    files[1].path.unlink()
    with pytest.raises(DamagedStoreError, match="Driver and executors must share this folder"):
        check_staged(files)
    assert bodies(path) == BEFORE


def test_an_append_that_fails_leaves_a_sound_store_without_its_rows(
    files: list[StagedFile], path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    class Parts(StagedParts):
        def __iter__(self) -> Iterator[Any]:
            yield from super().__iter__()
            raise DiskError("the network's disk is gone")

    monkeypatch.setattr(writing, "StagedParts", Parts)
    with pytest.raises(DiskError, match="is gone"):
        append_files(path, files, None, 0)
    assert bodies(path) == BEFORE
    assert assert_clean(path).records == 1
    assert not (path / "abort").exists(), "recovered and closed"


def test_an_error_behind_the_commit_point_is_none_of_the_job(
    files: list[StagedFile], path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    real = AtomicAppend.commit

    def commit(rows: AtomicAppend) -> None:
        real(rows)
        raise DiskError("and then the disk was gone")

    with monkeypatch.context() as patch:
        patch.setattr(AtomicAppend, "commit", commit)
        append_files(path, files, None, 0)
    assert bodies(path) == BEFORE | ROWS
    assert_clean(path)


def test_of_two_commits_at_the_same_moment_the_second_is_refused(files: list[StagedFile], path: Path) -> None:
    with flightlog.open(path, StoreSettings.small()), pytest.raises(StoreLockedError):
        append_files(path, files, None, 0)
    assert bodies(path) == BEFORE


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from flightlog.spark.write.writing import append_files
from flightlog.store.log import atomic_append

site = sys.argv[2]
rows = atomic_append.AtomicAppend

def die_in(name, after):
    real = getattr(rows, name)
    def call(*arguments):
        if after:
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(rows, name, call)

die_in(site.removeprefix("after "), site.startswith("after "))
append_files(Path(sys.argv[1]), pickle.loads(sys.stdin.buffer.read()), "query", 7)
"""


@pytest.mark.parametrize("site", ["after _append_some", "sync", "commit", "after commit"])
def test_a_driver_that_is_killed_leaves_all_or_nothing_and_the_batch_is_known_again(
    site: str, files: list[StagedFile], path: Path, assert_clean: AssertClean
) -> None:
    import pickle

    command = [sys.executable, "-P", "-c", KILLED, str(path), site]
    finished = subprocess.run(command, input=pickle.dumps(files), capture_output=True)
    assert finished.returncode == -signal.SIGKILL, finished.stderr.decode()
    expected = BEFORE | ROWS if site == "after commit" else BEFORE
    assert bodies(path) == expected, "a view shows what the next writer keeps"
    with flightlog.open(path, SETTINGS):
        pass
    assert bodies(path) == expected
    append_files(path, files, "query", 7)
    assert bodies(path) == BEFORE | ROWS, "once"
    append_files(path, files, "query", 7)
    append_files(path, files, "query", 6)
    assert bodies(path) == BEFORE | ROWS
    append_files(path, files, "query", 8)
    append_files(path, files, "another", 7)
    assert bodies(path)["a", 0] == [b"1", b"3"] * 3
    assert_clean(path)


def test_a_note_of_a_batch_that_nobody_can_judge_any_more(
    files: list[StagedFile], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_files(path, files, "query", 7)
    ledger, note = WriteLedger(path, "query"), path / "flightlog" / LEDGER_FILE
    assert ledger.has(7) and not ledger.has(8) and not WriteLedger(path, "another").has(0)
    note.write_text(note.read_text().replace("true", "false"))
    assert ledger.has(7), "the log says so"
    with monkeypatch.context() as patch:
        patch.setattr(flightlog.ReadOnlyStore, "min_physical_offset", 1 << 40)
        with pytest.raises(DamagedStoreError, match="it is unknown whether it was committed"):
            ledger.has(7)
    note.write_text('{"query": {"batch": "x"}}')
    with pytest.raises(ConfigFileError):
        ledger.has(7)


@pytest.mark.parametrize("rows", [1, 300])
def test_a_store_made_first_keeps_its_sizes(rows: int, tmp_path: Path, assert_clean: AssertClean) -> None:
    """As docs/spark.md advises: an empty store used to get segments of 1 GiB by its first write."""
    path = tmp_path / "store"
    flightlog.open(
        path, StoreSettings(segment_size=65536, queue_file_entries=50, index_entries=400, index_slots=100)
    ).close()
    assert writing.find_segment_size(path) == 65536
    text = "value binary, key string"
    staged = stage(tmp_path / "job", [batch(value=[bytes(1000)] * rows, key=["k"] * rows)], text, topic="t")
    append_files(path, [staged], None, 0)
    assert {file.stat().st_size for file in (path / "commitlog").iterdir()} == {65536}
    assert {file.stat().st_size for file in path.glob("consumequeue/t/*/*")} == {50 * 20}
    assert {file.stat().st_size for file in path.glob("index/*")} == {40 + 4 * 100 + 20 * 400}
    assert assert_clean(path).records == rows


def test_rows_that_do_not_fit_a_store_made_first_are_refused_in_their_task(tmp_path: Path) -> None:
    path = tmp_path / "store"
    flightlog.open(path, StoreSettings(segment_size=65536)).close()
    columns = WriteColumns.of(schema("value binary"), "t")
    (tmp_path / "job").mkdir()
    stager = Stager(columns, tmp_path / "job", SETTINGS, writing.find_segment_size(path))
    with pytest.raises(InvalidMessageError, match="segment_size less its filler"):
        stager.stage([batch(value=[bytes(70_000)])], 0)
    assert writing.find_segment_size(tmp_path / "none") == 1 << 30
