"""Apache RocketMQ's own message store, driven from Python: write a store with it, open one with it.

The programs are our Java in `java/`, built by Maven against the released jars. They print JSON lines; a message's
line has every field of its record as RocketMQ's decoder sees it, the SHA-1 of its body as stored (`bodySha1`) and of
its whole record (`rawSha1`). Lines of `open_store` add the queue entry that led there (`cqTopic`, `cqQueueId`,
`cqOffset` in entries, `cqPos` in bytes of the log, `cqSize`, `cqTagsCode`).

RocketMQ needs more than three seconds for a clean shutdown; a store that is halted ends at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

JAVA_FOLDER = Path(__file__).resolve().parent / "java"
JAVA_49_FOLDER = JAVA_FOLDER.with_name("java49")
OPENED_PACKAGES = ("java.nio", "sun.nio.ch", "jdk.internal.ref")  # RocketMQ 4.9 unmaps its files by their own methods
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")  # programs of a few seconds
MAIN_CLASS = "flightlog.interop.Main"
BUILD_LIMIT_S = 900.0  # a first build fetches about 80 MB
RUN_LIMIT_S = 300.0
STDERR_SHOWN = 6_000  # characters; the end tells why
# What an appended message is numbered from unless told, so that its keys differ from those of the first session.
APPENDED_FIRST = 1_000_000
UNREACHABLE = ("Could not transfer artifact", "Unknown host", "offline mode")  # no repository: no fault of ours
DIGEST_LINE = struct.Struct(">qqi20s")  # queue offset, physical offset, record size, SHA-1 of the stored body

Line = dict[str, Any]
QueueName = tuple[str, int]


class InteropUnavailableError(Exception):
    """This machine lacks what it takes to run RocketMQ; the message names it."""


class InteropError(Exception):
    """The build or one of the programs failed; the message ends with what it said."""


class Geometry(TypedDict, total=False):
    """Sizes and settings of a store; RocketMQ's defaults for what is not given."""

    segment_size: int  # bytes
    queue_entries: int  # a queue file
    index_slots: int
    index_entries: int
    index: bool  # whether keys are indexed at all
    flush: Literal["ASYNC", "SYNC"]
    batch_topics: Sequence[str]  # whose queues are batch consume queues
    config: Mapping[str, str]  # any other setting of RocketMQ's MessageStoreConfig, by its name


class PutOptions(Geometry, total=False):
    """What is put there besides; messages depend on these and the seed alone."""

    first: int  # number of the first message
    topics: Sequence[str]
    queues: int  # a topic
    body_min: int  # bytes
    body_max: int  # bytes
    features: Sequence[str]  # see SeededPuts.java
    keys_each: int  # keys of every message, which then has no other properties
    orders: int  # mixed in, three messages each, on top of the count
    stall_limit_ms: int  # how long dispatch may stand still


@dataclass(frozen=True)
class QueueDigest:
    """A queue too long to print; `messages_sha1` and `records_sha1` below compute the same from other sources."""

    count: int
    messages_sha1: str
    records_sha1: str


@dataclass(frozen=True)
class Questions:
    """What RocketMQ is to be asked about one store, as lines of words; Questions.java says what there is.

    It is asked at a copy that is thrown away: RocketMQ recovers the store, and is not shut down.
    """

    path: Path
    lines: Sequence[Sequence[object]]
    geometry: Geometry


@dataclass(frozen=True)
class Answers:
    """What RocketMQ said of one store: an answer for each line of the questions, in their order."""

    bounds: dict[QueueName, tuple[int, int]]
    lines: list[Line]


@dataclass(frozen=True)
class OpenResult:
    """What RocketMQ found in a store, and what it appended there."""

    store: Line = field(default_factory=dict)
    bounds: dict[QueueName, tuple[int, int]] = field(default_factory=dict)  # first offset, one past the last
    messages: list[Line] = field(default_factory=list)
    digests: dict[QueueName, QueueDigest] = field(default_factory=dict)
    queries: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (topic, key) -> ascending log offsets
    problems: list[Line] = field(default_factory=list)  # stretches of a queue that gave no message
    appended: list[Line] = field(default_factory=list)
    bounds_after: dict[QueueName, tuple[int, int]] = field(default_factory=dict)
    summary: Line = field(default_factory=dict)
    closed: Line = field(default_factory=dict)


def messages_sha1(messages: Iterable[tuple[int, int, int, bytes]]) -> str:
    """A queue's `QueueDigest.messages_sha1` from (queue offset, physical offset, record size, stored body) in order."""
    digest = hashlib.sha1()
    for queue_offset, physical_offset, size, body in messages:
        digest.update(DIGEST_LINE.pack(queue_offset, physical_offset, size, hashlib.sha1(body).digest()))
    return digest.hexdigest()


def records_sha1(records: Iterable[bytes]) -> str:
    """A queue's `QueueDigest.records_sha1` from its whole records in order."""
    digest = hashlib.sha1()
    for record in records:
        digest.update(record)
    return digest.hexdigest()


class RocketMq:
    """RocketMQ 5.3.3's `DefaultMessageStore`, one fresh Java process a call.

    With JAVA_49_FOLDER it is 4.9.8's: `write_store` and `open_store` alone, with the features "unicode", "empty",
    "noprops", "types" and "v6", without digests, and with no queries but "all".
    """

    def __init__(self, java_folder: Path = JAVA_FOLDER) -> None:
        """Builds the programs if need be. Raises InteropUnavailableError or InteropError."""
        self._java = _find_java()
        self._target = java_folder / "target"
        _build(java_folder)

    def write_store(
        self,
        path: Path,
        *,
        seed: int,
        count: int,
        halt: bool = False,
        lag: int = 0,
        pause_every: int | None = None,
        pause_ms: int = 0,
        manifest: Path | None = None,
        timeout_s: float = RUN_LIMIT_S,
        **options: Unpack[PutOptions],
    ) -> list[Line]:
        """Makes the store, or appends to it if it exists; returns one line a message in the order of the log.

        `halt` ends the process right after the last put, without flush or shutdown; then `lag` of the messages are
        in no queue and no index. After every `pause_every` messages it pauses for `pause_ms` or down to half of it,
        so that store times differ. `manifest` keeps all lines: sizes first, bounds and a summary last.
        """
        arguments = {"path": path, "seed": seed, "count": count, "halt": halt, "lag": lag, **java_options(options)}
        if pause_every is not None:
            arguments |= {"pauseEvery": pause_every, "pauseMs": pause_ms}
        with self.run("write", arguments, timeout_s) as output:
            if manifest is not None:
                shutil.copyfile(output, manifest)
            return [line for line in _lines(output) if line["type"] == "msg"]

    def write_digests(
        self, path: Path, *, seed: int, count: int, timeout_s: float = RUN_LIMIT_S, **options: Unpack[PutOptions]
    ) -> dict[QueueName, QueueDigest]:
        """Like `write_store` with a clean end, for millions of messages: returns a digest a queue."""
        arguments = {"path": path, "seed": seed, "count": count, "digest": True, **java_options(options)}
        with self.run("write", arguments, timeout_s) as output:
            return {_queue(line): _digest(line) for line in _lines(output) if line["type"] == "digest"}

    def open_store(
        self,
        path: Path,
        *,
        append: int = 0,
        seed: int = 1,
        queries: Iterable[tuple[str, str]] | Literal["all"] = (),
        digest: bool = False,
        clean_ups: int = 0,
        timeout_s: float = RUN_LIMIT_S,
        **options: Unpack[PutOptions],
    ) -> OpenResult:
        """Lets RocketMQ load, recover and start the store, reads all of it, appends, and shuts down cleanly.

        This writes to the store, so hand it a copy of one that you want to keep. The sizes must be those the store
        was written with. `queries` are (topic, key) pairs, or "all": every key of every message. `digest` gives
        `digests` in place of `messages`. RocketMQ's cleaners run `clean_ups` rounds before anything is read. Raises
        InteropError also when RocketMQ refuses to load the store.
        """
        arguments: dict[str, object] = {
            "path": path,
            "append": append,
            "seed": seed,
            "digest": digest,
            "cleanUps": clean_ups,
        }
        arguments |= java_options({"first": APPENDED_FIRST, **options})
        with tempfile.TemporaryDirectory(prefix="flightlog-keys-") as folder:
            arguments["keys"] = "all" if queries == "all" else _write_words(Path(folder) / "keys", queries)
            with self.run("open", arguments, timeout_s) as output:
                return _opened(output)

    def ask(self, stores: Sequence[Questions], timeout_s: float = RUN_LIMIT_S) -> list[Answers]:
        """Open the stores in one process, ask each its questions, and return what each answered, in their order."""
        with tempfile.TemporaryDirectory(prefix="flightlog-questions-") as folder:
            jobs = []
            for number, store in enumerate(stores):
                questions = Path(folder) / str(number)
                _write_words(questions, store.lines)
                job = java_options({"path": store.path, "questions": questions, **store.geometry})
                jobs.append([f"{name}={_text(value)}" for name, value in job.items()])
            _write_words(Path(folder) / "jobs", jobs)
            with self.run("ask", {"jobs": Path(folder) / "jobs"}, timeout_s) as output:
                return _answered(output)

    def compress(self, folder: Path, timeout_s: float = RUN_LIMIT_S) -> None:
        """RocketMQ's clients' compressors over the files of a folder; CompressProgram.java says which become which."""
        with self.run("compress", {"folder": folder.absolute()}, timeout_s):
            pass

    def write_rocksdb(self, path: Path, *, count: int, halt: bool = False, **options: Unpack[Geometry]) -> None:
        """A store whose consume queues are in RocksDB, of a plain message each; RocksDbProgram.java says which."""
        config = {**options.pop("config", {}), "storeType": "defaultRocksDB"}
        arguments = {
            "path": path,
            "count": count,
            "queues": 2,
            "halt": halt,
            **java_options(options | {"config": config}),
        }
        with self.run("rocksdb", arguments, RUN_LIMIT_S):
            pass

    def write_rocksdb_config(self, path: Path) -> None:
        """The folders in `path` that such a broker's topics, groups and offsets are in."""
        with self.run("rocksdb", {"path": path}, RUN_LIMIT_S):
            pass

    def settings(self, files: Path, dump: Path) -> list[Line]:
        """What a broker makes of the files that are named in `files`. Writes all settings, as they are, to `dump`."""
        with self.run("settings", {"files": files, "dump": dump}, RUN_LIMIT_S) as output:
            return [line for line in _lines(output) if line["type"] == "conf"]

    def command(self, home: str, program: str, arguments: Mapping[str, object]) -> list[str]:
        """How to start one of the programs, to be run in the folder `home` with `java_environment()`."""
        words = [f"{name}={_text(value)}" for name, value in arguments.items()]
        return [*self.java(home), MAIN_CLASS, program, *words]

    def java(self, home: str) -> list[str]:
        """How to start Java with the programs and RocketMQ on its class path; a class and its arguments follow."""
        # RocketMQ and its libraries write below the user's home and the temporary folder: both are thrown away.
        command = [self._java, "-Xmx1g", *SHORT_LIVED, f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        target = self._target
        return [*command, "-cp", f"{target / 'classes'}{os.pathsep}{target / 'dependency'}/*"]

    @contextmanager
    def run(self, program: str, arguments: Mapping[str, object], timeout_s: float) -> Iterator[Path]:
        """Runs one program; yields the file of its JSON lines, which is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="flightlog-java-") as home:
            output, errors = Path(home) / "stdout", Path(home) / "stderr"
            command = self.command(home, program, arguments)
            with output.open("wb") as stdout, errors.open("wb") as stderr:
                try:
                    code: int | str = subprocess.run(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=stdout,
                        stderr=stderr,
                        cwd=home,
                        env=java_environment(),
                        timeout=timeout_s,
                    ).returncode
                except subprocess.TimeoutExpired:
                    code = f"none: it was killed after {timeout_s} s"
            if code != 0:
                said = errors.read_text(errors="replace")
                raise InteropError(f"{program} {dict(arguments)}: exit code {code}\n{said[-STDERR_SHOWN:]}")
            yield output


def java_environment() -> dict[str, str]:
    """Java writes names of files in the locale's encoding and knows no other way: topics may be any text."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def java_options(options: Mapping[str, Any]) -> dict[str, object]:
    """Our names to the Java programs': segment_size -> segmentSize, config entries -> config.NAME."""
    named: dict[str, object] = {}
    for name, value in options.items():
        if name == "config":
            named |= {f"config.{setting}": text for setting, text in value.items()}
        else:
            head, *rest = name.split("_")
            named[head + "".join(word.capitalize() for word in rest)] = value
    return named


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    return str(value.absolute() if isinstance(value, Path) else value)


def _write_words(path: Path, lines: Iterable[Sequence[object]]) -> Path:
    """One line each, words separated by TABs."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for words in lines:
            line = "\t".join(map(str, words))
            if "\n" in line or line.count("\t") != len(words) - 1:
                raise ValueError(f"the program's files cannot hold TABs and line ends in words: {words}")
            file.write(line + "\n")
    return path


def _lines(output: Path) -> Iterator[Line]:
    with output.open(encoding="ascii") as file:
        yield from map(json.loads, file)


def _queue(line: Line) -> QueueName:
    return line["topic"], line["queueId"]


def _digest(line: Line) -> QueueDigest:
    return QueueDigest(line["count"], line["messagesSha1"], line["recordsSha1"])


def _answered(output: Path) -> list[Answers]:
    found: list[Answers] = []
    for line in _lines(output):
        if line["type"] == "store":
            found.append(Answers({}, []))
        elif line["type"] == "queue":
            found[-1].bounds[_queue(line)] = (line["min"], line["max"])
        elif line["type"] == "done":
            if line["answers"] != len(found[-1].lines):
                raise InteropError(f"{line} answers, {len(found[-1].lines)} lines")
        else:
            found[-1].lines.append(line)
    return found


def _opened(output: Path) -> OpenResult:
    result = OpenResult()
    many = {"msg": result.messages, "put": result.appended, "problem": result.problems}
    once = {"store": result.store, "summary": result.summary, "closed": result.closed}
    bounds = {"queue": result.bounds, "queueAfter": result.bounds_after}
    for line in _lines(output):
        kind = line["type"]
        if kind in many:
            many[kind].append(line)
        elif kind in once:
            once[kind].update(line)
        elif kind in bounds:
            bounds[kind][_queue(line)] = (line["min"], line["max"])
        elif kind == "digest":
            result.digests[_queue(line)] = _digest(line)
        else:
            result.queries[line["topic"], line["key"]] = line["offsets"]
    return result


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise InteropUnavailableError(f"no java in {where}: RocketMQ needs a JDK, 11 or newer")
    return java


def _build(folder: Path) -> None:
    """Compiles and fetches the jars once for each state of the sources, however many processes ask for it."""
    target = folder / "target"
    target.mkdir(exist_ok=True)
    stamp = target / "built"
    wanted = _fingerprint(folder)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
        if stamp.exists() and stamp.read_text() == wanted:
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise InteropUnavailableError("no mvn in PATH: the RocketMQ programs are built with Maven, 3.6 or newer")
        for name in ("classes", "dependency"):
            shutil.rmtree(target / name, ignore_errors=True)
        command = [maven, "-q", "-B", "compile"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
        said = (done.stdout + done.stderr)[-STDERR_SHOWN:]
        if done.returncode != 0:
            if any(words in said for words in UNREACHABLE):
                raise InteropUnavailableError(f"Maven cannot reach its repository with RocketMQ's jars\n{said}")
            raise InteropError(f"mvn compile in {folder} failed with exit code {done.returncode}\n{said}")
        stamp.write_text(wanted)


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    sources = [p for root in {folder, JAVA_FOLDER} for p in (root / "src").rglob("*") if p.is_file()]
    for path in [folder / "pom.xml", *sorted(sources)]:
        digest.update(f"{path.relative_to(JAVA_FOLDER.parent)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
