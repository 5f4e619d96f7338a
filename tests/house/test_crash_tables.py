"""Every row of the tables that say what messaging does in a failure or a crash has tests, which are named here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

TABLES = {
    "docs/messaging.md": (
        *("event", "the process dies, or power is cut", "the listener", "type"),
        *("`may_be_stored`", "`timeout_s` of the call, or else of the `Producer`"),
    ),
    "docs/operations.md": ("messages",),
}
"""How the heads of these tables begin, by document."""

GUARANTEES = "consume/test_delivery_guarantees.py::test_"
REDRIVE = "consume/test_redrive.py::test_"
IN_ORDER, IN_ORDER_LIVES = (
    "consume/test_pop_ordered.py::test_",
    "consume/test_pop_lives.py::test_each_queue_of_an_ordered_group_goes_in_order_to_one_receiver_at_a_time",
)
POP, POP_FAULTS = "consume/test_pop.py::test_", "consume/test_pop_faults.py::test_a_death_at_every_change_of_the_disk"
SEND_MANY, PRODUCER = "produce/test_send_many.py::test_", "produce/test_producer.py::test_"
TRANSACTIONS, TRANSACTION_CHECKS = "produce/test_transactions.py::test_", "produce/test_transaction_checks.py::test_"
TRANSACTION_FAULTS = "produce/test_transaction_faults.py::test_a_death_at_every_change_of_the_disk"
PULL_LIVES = "consume/test_pull_lives.py::test_"
RETRY, STARTS, ORDERED = (
    "consume/test_retry.py::test_",
    "consume/test_starts.py::test_",
    "consume/test_ordered.py::test_",
)
ORDERED_ATTEMPTS = "consume/test_ordered_attempts.py::test_"
CONSUMER, CONSUMPTION = "consume/test_consumer.py::test_", "consume/test_consumption.py::test_"
UNREAD_TOPIC = CONSUMPTION + "a_topic_that_no_group_consumes_keeps_its_segments_until_it_is_deleted"
SEND_ASYNC, MESSAGE_TYPE = "produce/test_send_async.py::test_", "produce/test_message_type.py::test_"
WINDOW, WINDOW_POWER = "consume/test_deduplication.py::test_", "faults/test_deduplication_power.py::test_"

TESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "Many messages at once": {
        "a store is full": (SEND_MANY + "what_a_full_store_does_not_take_goes_to_another_one",),
        "a sync fails": (SEND_MANY + "after_a_failed_sync_each_failure_says_that_it_may_be_stored",),
        "one message is invalid": (SEND_MANY + "one_wrong_message_refuses_the_part_of_its_store",),
        "`timeout_s` (3 s) is over": (SEND_MANY + "what_was_not_tried_in_time_is_stored_nowhere",),
    },
    "Timeout of a send": {
        "not given": (
            SEND_ASYNC + "no_try_begins_after_the_timeout",
            SEND_ASYNC + "a_store_that_answers_flush_disk_timeout_first_gives_a_result",
        ),
        "given": (SEND_ASYNC + "a_send_does_not_wait_for_a_hanging_sync_beyond_its_timeout",),
        "`False`": (SEND_ASYNC + "no_try_begins_after_the_timeout",),
        "`True`": (SEND_ASYNC + "a_send_does_not_wait_for_a_hanging_sync_beyond_its_timeout",),
    },
    "Message types": dict.fromkeys(
        ("`TRANSACTION`", "`DELAY`", "`FIFO`", "`NORMAL`"),
        (
            MESSAGE_TYPE + "the_type_of_a_message_as_rocketmq_reads_it",
            MESSAGE_TYPE + "which_topics_take_which_messages_as_rocketmqs_validator_says",
        ),
    ),
    "Several stores": {
        "a put without a message group fails": (PRODUCER + "a_full_store_is_left_alone_and_tried_again",),
        "a put with a message group": (PRODUCER + "an_ordered_message_never_changes_its_queue",),
        "a store failed": (PRODUCER + "a_full_store_is_left_alone_and_tried_again",),
        "its `timeout_s` has passed": ("produce/test_send_async.py::test_no_try_begins_after_the_timeout",),
        "a store was slow": (
            "produce/test_faults.py::test_rocketmqs_latency_classes",
            "produce/test_faults.py::test_a_slow_store_is_left_alone_and_a_quick_send_ends_that",
        ),
        "all stores are being skipped": (
            PRODUCER + "queues_take_turns_while_their_only_store_is_to_be_left_alone",
            PRODUCER + "where_all_fail_the_error_is_the_last_ones",
        ),
        "the error leaves it open": (PRODUCER + "after_a_failed_sync_the_message_is_not_made_two",),
        "a store is poisoned": (PRODUCER + "a_store_that_was_opened_again_takes_its_place",),
        "a store was closed": (PRODUCER + "of_a_store_that_was_closed_before_nothing_is_known",),
    },
    "Transactions": {
        "the block ends": (TRANSACTIONS + "how_a_block_ends",),
        "`tx.commit()`": (TRANSACTIONS + "a_transaction_ends_once",),
        "an exception leaves the block": (TRANSACTIONS + "how_a_block_ends",),
        "`commit` raises DiskFullError": (TRANSACTIONS + "a_full_disk_leaves_a_transaction_open",),
        "`commit` raises another error": (TRANSACTIONS + "a_store_that_is_closed_or_poisoned", TRANSACTION_FAULTS),
        "the process dies": (
            TRANSACTION_CHECKS + "what_a_crash_left_is_asked_about_and_ended",
            TRANSACTION_CHECKS + "a_transaction_that_nobody_holds_is_asked_about",
            TRANSACTION_CHECKS + "a_crash_between_commit_record_and_op_message",
            TRANSACTION_FAULTS,
        ),
        "power fails": (TRANSACTION_FAULTS, TRANSACTIONS + "under_sync_flush_both_ends_are_durable"),
    },
    "Delivery guarantees": {
        "subscription or store closed": (GUARANTEES + "a_closed_subscription", GUARANTEES + "a_closed_store"),
        "exception in the loop": (
            GUARANTEES + "an_exception_in_the_loop",
            "consume/test_stores.py::test_a_member_whose_thread_has_died_leaves_until_it_is_asked_again",
        ),
        "process killed": (GUARANTEES + "a_killed_process",),
        "power cut, sync flush": (GUARANTEES + "a_power_cut_under_sync_flush",),
        "power cut, async flush": (GUARANTEES + "a_power_cut_under_async_flush",),
        "queue moves to another member": (GUARANTEES + "a_queue_that_moves",),
    },
    "Listeners": {
        "returns `None`": (CONSUMER + "none_and_consume_success_acknowledge",),
        "returns `\"RECONSUME_LATER\"`": (CONSUMER + "reconsume_later_is_a_failed_attempt",),
        "raises": (CONSUMER + "what_fails_comes_again_and_no_thread_dies_of_it",),
        "is a coroutine function": (
            "consume/test_coroutine_listener.py::test_every_message_is_awaited_once_and_acknowledged",
            "consume/test_coroutine_listener.py::test_one_that_fails_has_its_messages_again",
        ),
        "returns anything else": (
            CONSUMER + "any_other_result_of_a_listener_is_a_failed_attempt_with_a_named_error",
            CONSUMER + "a_listener_that_returns_a_coroutine_acknowledges_nothing",
        ),
        "does not return within": (
            RETRY + "a_stuck_listener_holds_up_nothing_else",
            RETRY + "a_consumer_gives_its_listener_15_minutes_and_a_subscription_any_time",
        ),
    },
    "Retries and dead letters": {
        "the process is killed after a message was sent back": (
            RETRY + "a_kill_before_offsets_are_written_repeats_nothing_that_was_sent_back",
            STARTS + "copies_of_what_was_sent_back_before_a_kill_are_passed_over",
            STARTS + "the_last_65_536_that_were_sent_back_are_looked_at",
            PULL_LIVES + "a_second_copy_of_a_dead_letter_is_passed_over_by_a_later_process_too",
        ),
        "the power fails then": (
            "consume/test_retry_power.py::test_no_message_is_lost_and_failed_ones_are_dead_letters_once",
            PULL_LIVES + "nothing_is_lost_no_attempt_forgotten_and_each_dead_letter_comes_once",
            "interop/test_retry.py::test_after_a_kill_a_broker_loses_no_message_and_may_repeat_a_dead_letter",
        ),
        "a queue goes to another member": (
            STARTS + "a_message_that_was_sent_back_behind_one_in_process_comes_no_second_time",
        ),
        "messages of one `put_batch`": (STARTS + "messages_of_one_batch_are_not_taken_for_each_other",),
        "a message ends its process": (
            STARTS + "a_message_that_ends_the_process_again_and_again_is_a_dead_letter",
            STARTS + "an_attempt_that_ended_the_process_counts_once",
        ),
        "other messages were in process": (STARTS + "after_a_kill_what_was_in_process_comes_one_by_one_and_alone",),
        "the store refuses the message": (
            RETRY + "what_the_store_refuses_stays_with_the_member",
            RETRY + "what_a_full_log_does_not_take_stays_with_the_member",
            RETRY + "what_a_poisoned_store_does_not_take_comes_again_after_the_next_open",
        ),
        "the store delivers no delayed messages": (RETRY + "a_store_without_delays_keeps_retries_with_the_member",),
        "a listener never returns": (RETRY + "a_stuck_listener_holds_up_nothing_else",),
        "the group broadcasts": (RETRY + "a_group_that_broadcasts_has_no_retries_that_others_see",),
    },
    "Redriving dead letters": {
        "`redrive` returns": (REDRIVE + "each_is_redriven_once_wherever_the_process_dies_or_the_power_fails",),
        "it raises in the middle": (
            REDRIVE + "a_full_disk_in_the_middle_leaves_the_rest_for_later",
            REDRIVE + "each_is_redriven_once_wherever_the_process_dies_or_the_power_fails",
        ),
        "the copies of the last batch": (REDRIVE + "copies_that_were_removed_before_their_note_are_put_again",),
        "a copy fails again": (REDRIVE + "a_copy_that_fails_is_a_new_dead_letter",),
        "`flightlog/redriven.json` is deleted": (REDRIVE + "without_its_notes_all_are_redriven",),
    },
    "Ordered consumption": {
        "a message fails": (ORDERED + "what_failed_blocks_its_queue_and_comes_before_all_others",),
        "a message can never succeed": (
            RETRY + "an_ordered_message_blocks_its_queue_until_its_last_attempt",
            ORDERED_ATTEMPTS + "a_message_that_fails_once_a_life_is_a_dead_letter_after_its_attempts",
            ORDERED_ATTEMPTS + "the_next_member_goes_on_with_the_count",
            ORDERED_ATTEMPTS + "of_a_batch_those_count_that_had_as_many_attempts_as_the_first",
            ORDERED_ATTEMPTS + "a_group_that_is_told_to_go_on_elsewhere_begins_to_count_again",
            ORDERED_ATTEMPTS + "attempts_at_what_a_power_cut_took_count_for_no_other_message",
        ),
        "a rebalance moves the queue": (
            ORDERED + "a_queue_moves_once_what_is_at_work_has_ended",
            ORDERED + "a_listener_that_takes_its_time_keeps_its_lock",
        ),
        "a member is closed while its listener runs": (
            ORDERED + "a_member_that_leaves_with_a_message_at_work_keeps_its_queue_until_that_has_ended",
            ORDERED + "a_lock_that_has_expired_lets_another_member_go_on",
        ),
        "the process is killed": (ORDERED + "ordered_stays_ordered_after_kills",),
    },
    "Pop": {
        "invisible time over": (POP + "what_is_not_acknowledged_comes_again_after_its_time",),
        "`ack` or `change_invisible` after that": (POP + "a_handle_is_refused_from_its_expiry_on",),
        "`ack` of a handle that": (POP + "the_new_handle_acknowledges_and_the_old_one_has_no_effect",),
        "store closed, process killed": (
            POP + "a_later_life_knows_what_was_popped_and_acknowledged",
            POP_FAULTS,
            "consume/test_pop_renewals.py::test_what_a_process_left_comes_after_its_last_slice",
        ),
        "process killed during a `receive`": (POP_FAULTS,),
        "process killed during `change_invisible`": (
            POP_FAULTS,
            "consume/test_pop_faults.py::"
            "test_a_death_between_the_two_records_of_a_change_brings_the_message_twice",
        ),
        "process killed while messages come again": (POP_FAULTS,),
        "process killed while a message goes to the dead letters": (
            POP_FAULTS,
            "consume/test_pop_dead_letters.py::test_what_is_given_up_is_a_dead_letter_once",
        ),
        "power cut, sync flush": (POP_FAULTS,),
        "power cut, async flush": (POP_FAULTS,),
        "topic deleted": (POP + "check_points_of_a_deleted_topic_are_passed_over",),
    },
    "Pop in order": {
        "invisible time over": (IN_ORDER + "what_is_not_acknowledged_comes_again_in_its_place_at_once_and_alone",),
        "`ack` or `change_invisible` after that": (
            IN_ORDER + "what_is_not_acknowledged_comes_again_in_its_place_at_once_and_alone",
            IN_ORDER + "the_same_attempt_id_receives_the_same_again",
        ),
        "`ack` of a handle that": (IN_ORDER + "a_handle_that_was_replaced_counts_as_well",),
        "store closed, process killed": (IN_ORDER + "a_later_life_knows_who_has_what", IN_ORDER_LIVES),
        "process killed during a `receive`": (IN_ORDER_LIVES,),
        "power cut, async flush": (
            IN_ORDER_LIVES,
            "consume/test_pop_dead_letters.py::test_what_is_given_up_is_a_dead_letter_once",
        ),
        "`reset_offset`, `delete_group`": (
            IN_ORDER + "a_reset_frees_the_queue",
            IN_ORDER + "a_deleted_group_begins_as_a_new_one",
        ),
        "setting `is_ordered` taken away": (IN_ORDER + "a_group_that_is_no_longer_ordered_finishes_in_order_first",),
    },
    "Effects outside of a database": {
        "before the effect": (WINDOW_POWER + "a_note_survives_what_its_flush_mode_says",),
        "between effect and note": (WINDOW_POWER + "a_note_survives_what_its_flush_mode_says",),
        "after both": (
            WINDOW_POWER + "async_notes_survive_a_kill",
            WINDOW + "a_message_that_comes_twice_has_one_effect",
        ),
        "the effect raises": (
            WINDOW + "an_effect_that_fails_is_not_noted",
            WINDOW + "an_id_that_was_forgotten_is_new",
        ),
        "the result": (WINDOW + "a_message_that_comes_twice_has_one_effect",),
    },
    "Deleting what was consumed": {
        "of a topic with groups": (
            CONSUMPTION + "what_all_groups_have_consumed_goes_and_no_more",
            CONSUMPTION + "a_group_that_has_begun_in_one_queue_has_read_nothing_of_the_others",
            CONSUMPTION + "what_a_filter_passes_over_is_consumed",
        ),
        "of a topic without groups": (UNREAD_TOPIC,),
        "received by pop": (CONSUMPTION + "a_popped_message_stays_until_it_is_acknowledged_or_was_put_again",),
        "in `%RETRY%` topics": (CONSUMPTION + "a_popped_message_stays_until_it_is_acknowledged_or_was_put_again",),
        "dead letters (`%DLQ%`)": (
            UNREAD_TOPIC,
            CONSUMPTION + "a_transaction_that_was_given_up_keeps_its_segment_until_a_group_consumes_it",
        ),
        "with a delay level or a timer": (
            CONSUMPTION + "a_delayed_message_stays_until_it_is_delivered",
            CONSUMPTION + "where_nothing_is_delivered_delayed_messages_stay",
            CONSUMPTION + "a_cancelled_timer_keeps_its_segment_until_its_time",
        ),
        "of transactions": (CONSUMPTION + "a_half_message_stays_until_a_round_of_checks_has_passed_it",),
        "read by broadcasting": (CONSUMPTION + "readers_without_offsets_in_the_store_keep_nothing",),
        "read with `get`": (CONSUMPTION + "readers_without_offsets_in_the_store_keep_nothing",),
    },
}  # fmt: skip


def rows(house: House) -> dict[str, list[str]]:
    """By title of their section: the first cells of the tables' rows."""
    found: dict[str, list[str]] = {}
    for document, heads in TABLES.items():
        title, is_in_table = "", False
        for line in (house.root / document).read_text().splitlines():
            if line.startswith("#"):
                title = line.lstrip("# ")
            first = line.removeprefix("| ").split(" | ")[0]
            is_head = line.startswith("|") and not is_in_table and first in heads
            is_in_table = line.startswith("|") and (is_in_table or is_head)
            if is_in_table and not is_head and not line.startswith("|--"):
                found.setdefault(title, []).append(first)
    return found


def test_every_row_has_its_tests(house: House) -> None:
    found = rows(house)
    assert found.keys() == TESTS.keys()
    for title, firsts in found.items():
        known = TESTS[title]
        wrong = [first for first in firsts if sum(first.startswith(each) for each in known) < 1]
        assert not wrong, f"name the tests of these rows of {title!r}: {wrong}"
        gone = [each for each in known if not any(first.startswith(each) for first in firsts)]
        assert not gone, f"these rows of {title!r} are no more: {gone}"


@pytest.mark.parametrize("name", sorted({name for each in TESTS.values() for names in each.values() for name in names}))
def test_the_tests_exist(house: House, name: str) -> None:
    file, function = name.split("::")
    assert re.search(rf"^(?:async )?def {function}\(", (house.root / "tests" / file).read_text(), re.MULTILINE)
