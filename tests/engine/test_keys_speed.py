"""The shortcuts of a query by key: each answers what the long way answers."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoredMessage
from flightlog.engine.read.key_query import SoughtKey
from flightlog.index.key import index_folder
from flightlog.index.key.index_file import key_hash
from flightlog.store.format.java_hash import java_hash
from flightlog.tests.support import inside, keyed

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SEED = int(os.environ["FLIGHTLOG_SEED"])
COUNT = 60
PARTS = ("KEYS", "UNIQ_KEY", "XKEYS", "TAGS", "\x01", "\x01", "\x02", "\x02", " ", "a", "b", "ab", "é", "k1")
WANTED = ("a", "b", "ab", "é", "k1", "", " ", "a b", "a\x02", "\x01a", "a\x02KEYS\x01b", "KEYS", "\ud800", "\n")


def links_to_index_files(path: Path) -> list[str]:
    """Where the descriptors of this process lead that lead to index files of the store, mappings included."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [name for name in found if name.startswith(str(path / "index"))]


def open_index_files(path: Path) -> int:
    return len(links_to_index_files(path))


def test_whose_keys_are_compared_without_parsing(tmp_path: Path) -> None:
    """Properties put together at random, separators where none should be: the same answer as the parser's."""
    dice = random.Random(SEED)
    with flightlog.open(tmp_path / "store") as store:
        store.put(Message("t", b"x", keys="a"))
        (message,) = store.read("t")
    fields = {name: getattr(message, name) for name in StoredMessage.__dataclass_fields__ if name != "properties_raw"}
    found = 0
    texts = ["KEYS\x01a\x02KEYS\x01b\x02", "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02"]
    for _ in range(4000):
        text = "".join(dice.choice(PARTS) for _ in range(dice.randrange(1, 14)))
        if dice.random() < 0.5:
            text += f"\x02KEYS\x01{dice.choice(PARTS)}\x02"
        texts.append(text)
    for text in texts:
        message = StoredMessage(**fields, properties_raw=text.encode())
        for key in WANTED:
            expected = key in (message.uniq_key, *message.keys)
            assert SoughtKey("t", key).is_of(message) == expected, (text, key)
            found += expected
    assert found > 500


def test_the_hash_of_a_short_key_goes_on_from_its_topic() -> None:
    dice = random.Random(SEED)
    for length in [*range(70), 500]:
        for letters in ("ab", "".join(map(chr, range(128))), "aé漢😀"):
            key = "".join(dice.choice(letters) for _ in range(length))
            for topic in ("orders", "Bestellungen-ä", ""):
                h = java_hash(f"{topic}#{key}")
                assert key_hash(topic, key) == (0 if h == -(2**31) else abs(h)), (topic, key)


def test_mapped_index_files_are_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """A search keeps the newest files mapped; whoever closes a store or a view closes them all."""
    monkeypatch.setattr(index_folder, "MOST_MAPPED", 3)
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
        keyed.flush_index(store)
        file_count = len(list((path / "index").iterdir()))
        assert file_count > 6
        keyed.check(store, COUNT)
        assert open_index_files(path) == 3 + 1, "and the newest one, which takes keys"
        with flightlog.open_read_only(path) as view:
            keyed.check(view, COUNT)
            assert open_index_files(path) == 3 + 1 + 3
        assert open_index_files(path) == 3 + 1
        keyed.query(store, "t0", "g0")  # ends in the oldest file
    assert open_index_files(path) == 0
    assert_clean(path)


def test_index_files_that_went_give_back_their_disk(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
        keyed.flush_index(store)
        keyed.check(store, COUNT)
        file_count = open_index_files(path)
        store.clean_up(0)
        assert open_index_files(path) < file_count - 3
    assert_clean(path)


def test_a_view_follows_a_writer_whose_index_files_go(tmp_path: Path, assert_clean: AssertClean) -> None:
    """It searches on what it has mapped until it looks at what was written since."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
        keyed.flush_index(store)
        with flightlog.open_read_only(path) as view:
            keyed.check(view, COUNT)
            file_count = open_index_files(path)
            for file in sorted((path / "index").iterdir())[:4]:
                file.unlink()
            keyed.check(view, COUNT)
            assert open_index_files(path) == file_count
            inside.maintenance(store).flush_index()  # makes it anew
            store.put_many(keyed.messages(COUNT, COUNT + 5))
            keyed.flush_index(store)
            view.refresh()
            keyed.check(view, COUNT + 5)
            assert not any("deleted" in name for name in links_to_index_files(path))
    assert_clean(path)
