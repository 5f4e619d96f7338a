"""The requests of remoting clients, each handed to what answers it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ...consume.request_modes import RequestModes
from ..access.accounts import AccessDenied
from ..access.acl_file import AclFile
from ..access.at_work import AtWork, Most, TooMuchAtWorkError
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop
from ..calls.clients import Clients
from .access import OPEN, credentials_of, needed_for
from .admin.broker import BrokerAdmin
from .admin.groups import Groups
from .admin.relayed import Relayed
from .admin.statistics import Statistics
from .answers.assignments import Assignments
from .answers.directory import Directory
from .answers.failed import Failed
from .answers.lookups import Lookups
from .answers.members import Members
from .answers.offsets import Offsets
from .answers.popping import Popping
from .answers.pulling import Pulling
from .answers.queue_locks import ClientLocks
from .answers.replies import Replies
from .answers.request import Answer, CommandRefused, Request, refusal
from .answers.sending import Sending
from .answers.topics import Topics
from .answers.transactions import RemotingTransactions
from .wire.codes import RequestCode, ResponseCode
from .wire.command import Command, InvalidFrameError
from .wire.connection import MAX_RUNNING, Connection

access_log = logging.getLogger("flightlog.serve.access")

OF_CONNECTION, OF_ADDRESS = Most(MAX_RUNNING, 128 << 20), Most(20_000, 512 << 20)
"""Requests at work, and bytes of their bodies. A client has one connection."""
BUSY = "[OVERLOAD]system busy, start flow control for a while"
"""A broker's words, after which clients try again."""

Answering = Callable[[Request], Awaitable[Answer]]


class RemotingService:
    """In one event loop."""

    def __init__(
        self,
        broker: Broker,
        directory: Directory,
        *,
        advertised_host: str | None,
        auto_create: bool,
        acl: AclFile | None,
        grpc_clients: Callable[[], Clients | None],
    ) -> None:
        """Serve the store that the broker has now. `acl`: who may do what; None: everybody may do everything."""
        store, traffic = broker.store, broker.traffic
        self.store, self._acl = store, acl
        self.off_loop = OffLoop()
        self._running = 0
        self._at_work = AtWork(OF_CONNECTION, OF_ADDRESS)
        topics = Topics(store, self.off_loop, directory, advertised_host, auto_create=auto_create)
        modes = RequestModes(store.message_store)
        self.members = Members(store, self.off_loop, self._producers_changed, modes)
        self.transactions = RemotingTransactions(broker, self.off_loop, self.members)
        self.pulling = Pulling(store, self.off_loop, self.members, traffic)
        self.popping = Popping(broker, self.off_loop)
        assignments = Assignments(store, self.off_loop, directory, self.members, modes)
        sending = Sending(store, self.off_loop, topics, self.transactions, traffic)
        offsets = Offsets(store, self.off_loop, self.members)
        groups = Groups(store, self.off_loop, self.members)
        locks, failed = ClientLocks(store), Failed(store, self.off_loop)
        lookups, replies = Lookups(store, self.off_loop), Replies(store, self.members)
        state = BrokerAdmin(store, self.off_loop, traffic)
        relayed = Relayed(store, self.off_loop, self.members, grpc_clients)
        self.statistics = Statistics(traffic, store.message_store.clock)
        self._answers: dict[int, Answering] = {
            RequestCode.UPDATE_BROKER_CONFIG: state.update_config,
            RequestCode.GET_BROKER_CONFIG: state.config,
            RequestCode.GET_BROKER_RUNTIME_INFO: state.runtime_info,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: topics.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: topics.cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topics.names,
            RequestCode.GET_TOPICS_BY_CLUSTER: topics.names,
            RequestCode.GET_KV_CONFIG: topics.no_config,
            RequestCode.UPDATE_AND_CREATE_TOPIC: topics.make,
            RequestCode.DELETE_TOPIC_IN_BROKER: topics.delete,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: topics.delete_route,
            RequestCode.GET_TOPIC_CONFIG: topics.config,
            RequestCode.GET_ALL_TOPIC_CONFIG: topics.configs,
            RequestCode.GET_TOPIC_STATS_INFO: topics.statistics,
            RequestCode.HEART_BEAT: self.members.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.members.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members.list_members,
            RequestCode.SEND_MESSAGE: sending.send,
            RequestCode.SEND_MESSAGE_V2: sending.send,
            RequestCode.SEND_BATCH_MESSAGE: sending.send,
            RequestCode.PULL_MESSAGE: self.pulling.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pulling.pull,
            RequestCode.QUERY_CONSUMER_OFFSET: offsets.of_group,
            RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.at_time,
            RequestCode.GET_MAX_OFFSET: offsets.end,
            RequestCode.GET_MIN_OFFSET: offsets.first,
            RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.first_stored,
            RequestCode.LOCK_BATCH_MQ: locks.lock,
            RequestCode.UNLOCK_BATCH_MQ: locks.unlock,
            RequestCode.CONSUMER_SEND_MSG_BACK: failed.send_back,
            RequestCode.VIEW_MESSAGE_BY_ID: lookups.by_id,
            RequestCode.QUERY_MESSAGE: lookups.by_key,
            RequestCode.END_TRANSACTION: self.transactions.end,
            RequestCode.SEND_REPLY_MESSAGE: replies.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: replies.reply,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.members.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.members.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.members.all_producers,
            RequestCode.CHECK_CLIENT_CONFIG: self.members.check_client,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.make,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.config,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.configs,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: groups.delete,
            RequestCode.GET_CONSUME_STATS: groups.statistics,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: groups.topics,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups.of_topic,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: groups.reset_offset,
            RequestCode.QUERY_ASSIGNMENT: assignments.of_client,
            RequestCode.SET_MESSAGE_REQUEST_MODE: assignments.set_mode,
            RequestCode.POP_MESSAGE: self.popping.pop,
            RequestCode.PEEK_MESSAGE: self.popping.peek,
            RequestCode.ACK_MESSAGE: self.popping.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.popping.ack_many,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.popping.change_invisible,
            RequestCode.NOTIFICATION: self.popping.notification,
            RequestCode.POLLING_INFO: self.popping.polling_info,
            RequestCode.GET_CONSUMER_RUNNING_INFO: relayed.running_info,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relayed.offsets,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: relayed.consume_directly,
            RequestCode.VIEW_BROKER_STATS_DATA: self.statistics.view,
        }

    def _producers_changed(self, groups: set[str]) -> None:
        self.transactions.served.check_groups(groups)

    @property
    def running(self) -> int:
        """Requests at work, pulls and pops that wait excepted."""
        return self._running - self.pulling.waiting_count - len(self.popping.polls.waiting)

    def stop_waiting(self) -> None:
        """Answer pulls and pops that wait."""
        self.pulling.close()
        self.popping.polls.close()

    async def handle(self, connection: Connection, command: Command) -> None:
        """Serve a request to its end."""
        began_s = time.monotonic()
        self._running += 1
        try:
            with self._at_work.one(connection, connection.peer[0], len(command.body)):
                answer = await self._answer(Request(connection, command))
        except TooMuchAtWorkError:
            answer = Answer(code=ResponseCode.SYSTEM_BUSY, remark=BUSY)
        finally:
            self._running -= 1
        if not command.is_one_way:
            try:
                connection.send(answer.to(command))
            except InvalidFrameError as e:
                with suppress(InvalidFrameError):
                    connection.send(Answer(code=ResponseCode.SYSTEM_ERROR, remark=str(e)).to(command))
        took_ms = (time.monotonic() - began_s) * 1000
        access_log.debug("%d of %s:%d: %d, %.1f ms", command.code, *connection.peer, answer.code, took_ms)

    def _authorize(self, request: Request) -> None:
        """Raises CommandRefused for a request that its client may not make."""
        if self._acl is None or request.command.code in OPEN:
            return
        needed, peer = needed_for(request), request.connection.peer
        try:
            self._acl.accounts.check(
                credentials_of(request.command), peer[0], needed.permissions, admin_code=needed.admin_code
            )
        except AccessDenied as e:
            access_log.debug("%d of %s:%d was refused: %s", request.command.code, *peer, e)
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, str(e)) from e

    async def _answer(self, request: Request) -> Answer:
        answering = self._answers.get(request.command.code)
        if answering is None:
            text = f"request type {request.command.code} is not supported by flightlog"
            return Answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=text)
        try:
            self._authorize(request)
            return await answering(request)
        except Exception as e:  # clients understand codes, and no request without an answer
            return refusal(e)

    def sweep(self) -> None:
        """What is done from time to time, in the loop."""
        self.members.sweep()
        self.statistics.sample()

    def leave_due(self) -> None:
        """Leave transactions that are old enough to the checks. By a thread: it may wait for the disk."""
        self.transactions.served.leave_due()

    def save(self) -> None:
        """Write the offsets of groups. By a thread: it waits for the disk."""
        self.members.outside.save()
