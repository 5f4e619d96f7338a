"""Which files `make load-test` runs: judged on a toy suite, and that the real one is not empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from flightlog.tests.load.slice import chosen

FIXTURES = """
import threading

import pytest

class Beside:
    def start(self):
        threading.Thread(target=print).start()

@pytest.fixture
def quiet():
    return 1

@pytest.fixture
def beside():
    return Beside()

@pytest.fixture
def spark() -> SparkSession:
    return session()

@pytest.fixture
def load(spark):
    return spark.read
"""
CHOSEN = {
    "clock": "import time\n",
    "clock_within": "def test_one():\n    from time import sleep\n",
    "threads": "from concurrent.futures import ThreadPoolExecutor\n",
    "fork": "import os\n\ndef test_one():\n    os.fork()\n",
    "fixture": "def test_one(beside):\n    pass\n",
    "used_fixture": "import pytest\n\npytestmark = pytest.mark.usefixtures('beside')\n",
    "helper": "from flightlog.tests.support import waiting\n",
    "name_of_helper": "from flightlog.tests.support.waiting import wait\n",
    "helper_of_helper": "from flightlog.tests.support import outer\n",
    "helper_beside": "from flightlog.tests.room import near\n",
    "child": "CHILD = 'outer.py'\n",
    "word_of_spark": "import time\n\ndef test_one():\n    spark = asked = 1\n",
    "client_of_rocketmq": "import socket\nimport rocketmq\n\ndef test_one():\n    rocketmq.send()\n",
    "pyspark": "import time\n\ndef test_one():\n    import pyspark\n",
}
LEFT_OUT = {
    "pure": "import os\n\ndef test_one(quiet):\n    os.getpid()\n",
    "timely_words": "def test_one():\n    time = 'threading'\n",
    "quiet_helper": "from flightlog.tests.support import words\n",
    "spark": "import time\n\ndef test_one(spark):\n    pass\n",
    "load": "import time\n\ndef test_one(load):\n    pass\n",
    "rocketmq": "import subprocess\n\ndef test_one(store: RocketMq):\n    pass\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    support = tmp_path / "support"
    room = tmp_path / "room"
    support.mkdir()
    room.mkdir()
    (support / "waiting.py").write_text("import time\n")
    (support / "outer.py").write_text("from flightlog.tests.support.waiting import wait\n")
    (support / "words.py").write_text("import re\n")
    (room / "near.py").write_text("import threading\n")
    (room / "conftest.py").write_text(FIXTURES)
    for name, source in (CHOSEN | LEFT_OUT).items():
        (room / f"test_{name}.py").write_text(source)
    return tmp_path


def test_what_touches_is_chosen_however_it_comes_by_it(suite: Path) -> None:
    assert {path.stem.removeprefix("test_") for path in chosen(suite)} == set(CHOSEN)


def test_files_of_the_suite() -> None:
    tests = Path(__file__).parents[1]
    names = {str(path.relative_to(tests)) for path in chosen(tests)}
    assert {"engine/test_life_threads.py", "engine/test_life_fork.py", "consume/test_consumer.py"} <= names
    # A name of theirs, such as `asked`, was once taken for a fixture of RocketMQ's: they never ran under load.
    assert {"engine/test_delete_beside.py", "serve/remoting/test_hostile_clients.py", "store/test_parallel.py"} <= names
    assert not [name for name in names if name.startswith("interop/")]
