"""Every python and bash block of README.md and docs/*.md runs as pasted, or is listed here with the reason.

- Each block runs in a process and a new folder of its own, so it brings its imports. In the documents of `GOES_ON` the
  blocks share a folder, in order: a block may use the stores of an earlier one. Those of `GIVEN_STORE` begin with one.
- The python and sql blocks of docs/spark.md run in one process, in tests/spark/test_recipes.py: each would start a
  Spark of its own.
- Files to be copied (`CHECKED`) are read by what reads such a file, and options that they pass to `flightlog` exist.
- A `text` block behind a python block is what that block prints; other `text` blocks are output or sketches.
- A block in any other language or in none is refused, and so is one to be run that is indented: nothing would run it.
- Every store that a document leaves behind is verified.
- README.md runs among the quick tests, but for its block with Spark; all else in those marked `ci`.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import flightlog
from flightlog.serve.access.plain_acl import read_accounts

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
RUN_ELSEWHERE = "docs/spark.md"
GOES_ON = ("README.md", "docs/guide.md", "docs/moving-to-a-broker.md", "docs/operations.md", "docs/tools.md")
GIVEN_STORE = "docs/moving-to-a-broker.md"
"""Its commands take the reader's own store, in `store`."""
BLOCK = re.compile(
    r"^```(?P<language>\w+)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```)?", re.MULTILINE | re.DOTALL
)
FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?:```|~~~)(?P<language>.*)$", re.MULTILINE)
RUN = ("python", "bash")
RUN_WITH_SPARK = ("python", "sql")
"""In `RUN_ELSEWHERE`, by tests/spark/test_recipes.py."""
BLOCK_LIMIT_S = 300

NOT_RUN: dict[tuple[str, str], str] = {
    (
        "README.md",
        "pip install .                            # in a checkout; needs numpy and crc32c",
    ): "installs from the network; tests/house/test_wheel.py builds and installs, tests/tools/test_demo.py is the demo",
    (
        "docs/serve.md",
        "pip install 'flightlog[serve,tools]'",
    ): "serves until it is told to end; tests/serve/test_command.py runs the command",
    (
        "docs/page.md",
        "pip install 'flightlog[serve,tools,ui]'",
    ): "serves until it is told to end; tests/serve/page/test_live.py runs the command",
    (
        "docs/serve.md",
        "from rocketmq import ClientConfiguration, Credentials, Message, Producer, SimpleConsumer",
    ): "needs a server at port 8081; tests/serve/test_python_client.py does the same at a free one",
    (
        "docs/performance.md",
        "pip install '.[tools,peers,arrow]'                         # in a checkout",
    ): "an hour of benchmarks; tests/tools/test_bench*.py runs them with --quick",
    (
        "docs/durability.md",
        ".venv/bin/python -P tests/support/cut_campaign.py FOLDER 50 1 2 3",
    ): "needs root and hours; tests/crash/test_real_cuts.py does the same with fewer cuts",
    (
        "docs/durability.md",
        ".venv/bin/python -P tests/support/simulated_cuts.py FOLDER --seed 4711 --cuts 10000",
    ): "takes long; tests/crash/test_simulated_cuts.py does the same with fewer cuts",
    (
        "docs/spark.md",
        'make test PYTEST_ARGS="--full -n0 tests/spark/test_stream_live.py"    # a flightlog writer',
    ): "ten minutes each; the tests that it names run shorter without --full",
}
"""Document and first line of a block -> why it does not run here, and what holds it instead."""


class Block(NamedTuple):
    """One block of a document."""

    document: str
    line: int
    language: str
    code: str
    output: str | None

    @property
    def first_line(self) -> str:
        return self.code.partition("\n")[0]

    @property
    def needs_spark(self) -> bool:
        return "spark" in self.code


def blocks_of(document: str) -> list[Block]:
    text = DOCUMENTS[document].read_text()
    return [
        Block(document, text.count("\n", 0, found.start()) + 1, found["language"], found["code"], found["output"])
        for found in BLOCK.finditer(text)
        if found["language"] in (*RUN, *CHECKED)
    ]


def check_options(command: list[str], folder: Path) -> None:
    """`flightlog` knows the command, and each option that stands before `--help`."""
    assert Path(command[0]).name == "flightlog"
    run(Block("options", 1, "bash", shlex.join(["flightlog", *command[1:], "--help"]), None), folder)


def check_unit(block: Block, folder: Path) -> None:
    """A systemd unit."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(block.code)
    command = shlex.split(unit["Service"]["ExecStart"])
    if Path(command[0]).name == "flightlog":
        check_options(command, folder)


def check_container_file(block: Block, folder: Path) -> None:
    lines = dict(line.split(" ", 1) for line in block.code.splitlines())
    assert list(lines) == ["FROM", "RUN", "CMD"]
    check_options(json.loads(lines["CMD"]), folder)


def check_accounts(block: Block, folder: Path) -> None:
    """A `plain_acl.yml`."""
    path = folder / "plain_acl.yml"
    path.write_text(block.code)
    read_accounts(path)


CHECKED: dict[str, Callable[[Block, Path], None]] = {
    "ini": check_unit,
    "dockerfile": check_container_file,
    "yaml": check_accounts,
}


def run(block: Block, folder: Path) -> None:
    """Paste it into a file, and run that. Raises AssertionError with what it printed."""
    program = folder / ("pasted.py" if block.language == "python" else "pasted.sh")
    program.write_text(block.code)
    command = [sys.executable, "-P"] if block.language == "python" else ["bash", "-e"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, program.name],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=BLOCK_LIMIT_S,
    )
    where = f"{block.document}:{block.line}"
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    if block.output is not None:
        assert done.stdout == block.output, where
    program.unlink()


def run_document(blocks: list[Block], folder: Path, assert_clean: AssertClean) -> None:
    if any(block.document == GIVEN_STORE for block in blocks):
        with flightlog.open(folder / "store") as store:
            store.put(flightlog.Message("orders", b"paid", keys="order-1"))
    for number, block in enumerate(blocks):
        place = folder if block.document in GOES_ON else folder / str(number)
        place.mkdir(exist_ok=True)
        if block.language in RUN and (block.document, block.first_line) not in NOT_RUN:
            run(block, place)
    for log in folder.rglob("commitlog"):
        assert_clean(log.parent)
    shutil.rmtree(folder)  # stores of default size allocate 64 MiB each


ALL_BLOCKS = {document: blocks_of(document) for document in DOCUMENTS if document != RUN_ELSEWHERE}
WITH_SPARK = [name for name, blocks in ALL_BLOCKS.items() if any(block.needs_spark for block in blocks)]


def test_every_exception_is_a_block() -> None:
    first_lines = {(block.document, block.first_line) for document in DOCUMENTS for block in blocks_of(document)}
    assert NOT_RUN.keys() <= first_lines


def test_shell_blocks_of_the_document_with_spark_are_exceptions() -> None:
    first_lines = [block.first_line for block in blocks_of(RUN_ELSEWHERE) if block.language not in RUN_WITH_SPARK]
    assert [line for line in first_lines if (RUN_ELSEWHERE, line) not in NOT_RUN] == []


def unknown_fences(document: str, text: str) -> list[str]:
    """The fences that open a block which no test runs or checks, as the line after the backticks."""
    known = {"text", *RUN_WITH_SPARK, "bash"} if document == RUN_ELSEWHERE else {"text", *RUN, *CHECKED}
    opening = list(FENCE.finditer(text))[::2]
    return [
        fence[0]
        for fence in opening
        if fence["language"] not in known or (fence["indent"] and fence["language"] != "text")
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_is_run_or_checked_or_marked_as_text(document: str) -> None:
    assert unknown_fences(document, DOCUMENTS[document].read_text()) == []


@pytest.mark.parametrize("fence", ["```shell", "```sql", "```", "```python title", "  ```bash", "~~~java"])
def test_a_block_that_nothing_runs_is_refused(fence: str) -> None:
    assert unknown_fences("docs/guide.md", f"```text\n1\n```\n\n{fence}\ntrue\n```\n") == [fence]


CHECKED_BLOCKS = [block for blocks in ALL_BLOCKS.values() for block in blocks if block.language in CHECKED]


@pytest.mark.parametrize("block", CHECKED_BLOCKS, ids=lambda block: f"{block.document}:{block.line}")
def test_a_file_to_be_copied_can_be_read(block: Block, tmp_path: Path) -> None:
    CHECKED[block.language](block, tmp_path)


def test_an_option_that_is_unknown_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--hots"):
        check_options(["/opt/bin/flightlog", "serve", "/data/store", "--hots", "0.0.0.0"], tmp_path)


@pytest.mark.parametrize("document", ["docs/messaging.md", "docs/delays.md"])
def test_every_example_shows_what_it_prints(document: str) -> None:
    assert [block.line for block in ALL_BLOCKS[document] if block.language in RUN and block.output is None] == []


TO_RUN = [
    pytest.param(name, marks=[] if name == "README.md" else pytest.mark.ci)
    for name, blocks in ALL_BLOCKS.items()
    if any(block.language in RUN and (name, block.first_line) not in NOT_RUN for block in blocks)
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("document", TO_RUN)
def test_the_blocks_of_a_document_run(document: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    run_document([block for block in ALL_BLOCKS[document] if not block.needs_spark], tmp_path, assert_clean)


@pytest.mark.ci
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("document", WITH_SPARK)
def test_the_blocks_of_a_document_run_with_spark(document: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    run_document(ALL_BLOCKS[document], tmp_path, assert_clean)
