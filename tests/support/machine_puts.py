"""Puts of every kind, to the store and to its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus
from flightlog.store.errors import DiskFullError, InvalidMessageError, StorePoisonedError, SyncFailedError
from flightlog.testing.power_disk import Died
from flightlog.tests.support import inside, machine_messages, machine_model, process
from flightlog.tests.support.machine_messages import Row
from flightlog.tests.support.machine_store import StoreLife
from flightlog.tests.support.model import Record

NO_ANSWER = (Died, SyncFailedError, StorePoisonedError)
"""What leaves open whether a put is there."""


class PuttingLife(StoreLife):
    def message(self, row: Row) -> Message:
        found: Message = machine_messages.message_of(row, next(self.numbers))
        if self.disk.full_after is not None:  # then nobody can tell whose turn it is, or what the service still does
            found = replace(found, queue_id=found.queue_id or 0, wait_store_ok=True)
        return found

    def put(self, row: Row) -> None:
        self.append([self.message(row)], lambda store, messages: [store.put(messages[0])])

    def put_filling(self, row: Row, less: int) -> None:
        """A message that fills its segment to the last byte, or leaves `less` bytes."""
        message, model = self.message(row._replace(size=0, kind="plain")), self.model
        wanted = model.room() - 8 - model.size_of(message, self.settings.store_host) - less
        message.body = bytes(max(wanted, 0))
        self.append([message], lambda store, messages: [store.put(messages[0])])

    def put_many(self, rows: Sequence[Row]) -> None:
        self.append([self.message(row) for row in rows], lambda store, messages: store.put_many(messages))

    def put_async(self, rows: Sequence[Row]) -> None:
        """One after the other, so that only one thread syncs at a time."""
        for row in rows:
            if self.is_open and not self.is_poisoned:
                message = self.message(row)
                self.append([message], lambda store, messages: [store.put_async(messages[0]).result(240)])

    def append(self, messages: list[Message], put: Callable[[flightlog.Store, list[Message]], list[PutResult]]) -> None:
        stored = self._routed(messages)
        count = 0
        with self.step():
            try:
                results = self._call(lambda: put(self.it, messages), is_refused=stored is None)
                count = len(messages)
                if stored is not None and results is not None:
                    self._note(stored, messages, results)
                    self._settle(messages)
            except DiskFullError as e:
                if stored is not None:
                    count = len(e.results)
                    self._note(stored[:count], messages, e.results)
                    self._settle(messages[:count])
                raise
            except NO_ANSWER:
                if stored is not None and not self.is_poisoned:
                    self._may_be_there(stored, messages)
                raise
            finally:
                self._see_roll()

    def append_columns(self, topic: str, rows: Sequence[Row]) -> None:
        rows = [row._replace(queue=(topic, row.queue[1]), kind="plain") for row in rows]
        messages = [self.message(row) for row in rows]
        columns = {
            "body": [m.body for m in messages],
            "tags": [m.tags for m in messages],
            "keys": [list(m.keys) for m in messages],
            "uniq_key": [m.uniq_key for m in messages],
            "queue_id": [m.queue_id for m in messages],
        }
        stored = self._routed_rows(topic, messages)
        with self.step():
            try:
                found = self._call(lambda: self.it.append_columns(topic, columns), is_refused=stored is None)
                if stored is not None and found is not None:
                    assert found.status is PutStatus.PUT_OK
                    self._note(stored, messages, _results(found))
                    self._settle(messages)
            except DiskFullError as e:
                if stored is not None and e.appended is not None:
                    results = _results(e.appended)
                    self._note(stored[: len(results)], messages, results)
                    self._settle(messages[: len(results)])
                raise
            except NO_ANSWER:
                if stored is not None and not self.is_poisoned:
                    self._may_be_there(stored, messages)
                raise
            finally:
                self._see_roll()

    def put_batch(self, rows: Sequence[Row]) -> None:
        """One inner batch, to the queue of the first row."""
        model, host = self.model, self.settings.store_host
        messages = [self.message(row._replace(queue=rows[0].queue, kind="plain")) for row in rows]
        topic, queue_id = messages[0].topic, messages[0].queue_id
        made = None
        if model.fits(model.batch_message(messages, queue_id or 0), host):
            made = model.route(topic, queue_id, makes=self.settings.auto_create_topics, is_batch=True)
        with self.step():
            is_there, results = not self.is_poisoned and made is not None, None
            try:
                results = self._call(lambda: self.it.put_batch(messages), is_refused=made is None)
            except DiskFullError:
                is_there = False
                raise
            finally:
                if is_there and made is not None:
                    record = model.put_batch(messages, made, self.clock.at_ms, host)
                    self._wrote(record)
                if results is None or not is_there:
                    self._see_roll()
            if results is not None:
                places = [(r.queue_id, r.queue_offset, r.physical_offset, r.size) for r in results]
                model.same("put_batch", places, [
                    (made, record.queue_offset + i, record.physical_offset, record.size) for i in range(len(rows))
                ])  # fmt: skip
                self._settle(messages)

    def _call(self, put: Callable[[], Any], *, is_refused: bool) -> Any:
        """None if it was refused, as it had to be."""
        was_poisoned = self.is_poisoned
        try:
            found = put()
        except InvalidMessageError:
            assert is_refused, "a put was refused that is to be taken"
            return None
        assert not is_refused, "a put was taken that is to be refused"
        assert not was_poisoned or not len(found), "a poisoned store took a put"
        return found

    def _routed(self, messages: Sequence[Message]) -> list[Message] | None:
        """The messages as they are to be stored; None if they must be refused."""
        makes, stored = self.settings.auto_create_topics, []
        for message in messages:
            one = machine_messages.as_stored(message)
            if not self.model.fits(one, self.settings.store_host):
                return None
            queue_id = self.model.route(one.topic, one.queue_id, makes=makes)
            if queue_id is None:
                return None
            stored.append(replace(one, queue_id=queue_id))
        return stored

    def _routed_rows(self, topic: str, messages: Sequence[Message]) -> list[Message] | None:
        """The same for rows, which are all looked at before a topic is."""
        makes = self.settings.auto_create_topics
        if not all(self.model.fits(message, self.settings.store_host) for message in messages):
            return None
        ids = [message.queue_id for message in messages]
        if ids and None not in ids:
            if self.model.route(topic, max(ids), makes=makes) is None:  # type: ignore[type-var]
                return None
            return list(messages)
        routed = []
        for queue_id in ids:
            routed.append(self.model.route(topic, queue_id, makes=makes))
            if routed[-1] is None:
                return None
        return [replace(message, queue_id=queue_id) for message, queue_id in zip(messages, routed, strict=True)]

    def _note(self, stored: Sequence[Message], messages: Sequence[Message], results: Sequence[PutResult]) -> None:
        records = self._may_be_there(stored, messages)
        for record, result in zip(records, results, strict=True):
            assert result.status is PutStatus.PUT_OK
            self.model.check_put(record, result)

    def _may_be_there(self, stored: Sequence[Message], messages: Sequence[Message]) -> list[Record]:
        """Where they are if they are there: a death in the middle leaves a part of them, from the first on."""
        records = []
        for one, message in zip(stored, messages, strict=False):
            record = self.model.put(one, self.clock.at_ms, self.settings.store_host)
            if message.compress is not None:
                self.model.plain_bodies[record.physical_offset] = message.body
            self._wrote(record)
            records.append(record)
        return records

    def _wrote(self, record: Record) -> None:
        size = self.model.segment_size
        for base in {record.physical_offset // size * size, max(record.physical_offset - 1, 0) // size * size}:
            self.disk.written_ms[f"{base:020d}"] = self.clock.at_ms

    def _settle(self, messages: Sequence[Message]) -> None:
        """They were put: how sure they are, and wait for who syncs those that did not wait."""
        if not messages:
            return
        self.sure = self.model.end
        if self.settings.flush_mode is not FlushMode.SYNC:
            return
        if not any(message.waits_for_sync for message in messages):
            log = inside.log(self.it)
            process.wait_until(
                lambda: log.poison is not None or (not inside.is_hurried(self.it) and log.flushed == log.end)
            )
        if inside.log(self.it).poison is None:
            self.synced = self.model.end

    def _see_roll(self) -> None:
        """A put for which there is no room may have ended its segment all the same."""
        if self.disk.full_after is not None and not self.is_poisoned and not self.disk.is_dead:
            end, model = inside.log(self.it).end, self.model
            if inside.log(self.it).poison is None and end != model.end:
                assert end == model.end + model.room(), f"the log ends at {end}, the model's at {model.end}"
                model.end = end
            model.topics = {
                name: replace(machine_model.route_of(topic), turn=model.topics[name].turn)
                for name, topic in self.it.topics().items()
            }


def _results(found: flightlog.AppendResult) -> list[PutResult]:
    """The same as results of puts."""
    columns = (found.queue_ids, found.queue_offsets, found.physical_offsets, found.sizes, found.store_timestamps_ms)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [PutResult._make((found.status, found.topic, *row, b"")) for row in rows]
