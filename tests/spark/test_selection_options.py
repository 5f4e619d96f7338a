"""Which queues, from where and up to where: what the options take, and what a wrong one is told."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from flightlog.spark.options.read_options import Assigned, Offsets, Pattern, ReadOptions, Times, Topics, parse_options
from flightlog.store.errors import InvalidSettingsError


def parse(**options: str) -> ReadOptions:
    return replace(parse_options({"path": "/store", **options}), stores=())


def test_without_options_everything_is_read() -> None:
    assert parse() == ReadOptions()
    assert parse().reads_the_log
    parse().require_batch()


def test_the_ways_to_choose_queues() -> None:
    assert parse(subscribe=" orders ,payments,, orders").subscription == Topics(("orders", "payments"))
    assert parse(subscribePattern="order.*").subscription == Pattern("order.*")
    assigned = parse(assign='{"orders": [0, 2], "payments": [1], "none": []}').subscription
    assert assigned == Assigned(frozenset({("orders", 0), ("orders", 2), ("payments", 1)}))


def test_offsets_and_times() -> None:
    selection = parse(
        subscribe="orders",
        startingOffsets='{"orders": {"0": 23, "1": -2}}',
        endingOffsets="LATEST",
        startingOffsetsByTimestampStrategy="latest",
        failOnDataLoss="False",
    )
    assert selection.starting == Offsets("startingOffsets", {("orders", 0): 23, ("orders", 1): -2})
    assert (selection.ending, selection.unmatched, selection.fail_on_data_loss) == ("latest", "latest", False)
    by_queue = parse(subscribe="orders", startingOffsetsByTimestamp='{"orders": {"0": 1700000000000}}').starting
    assert by_queue == Times("startingOffsetsByTimestamp", {("orders", 0): 1_700_000_000_000})
    assert not parse(startingOffsets='{"orders": {"0": 1}}').reads_the_log
    assert parse(startingTimestamp="5", endingTimestamp="6").reads_the_log
    assert pickle.loads(pickle.dumps(selection)) == selection


def test_of_two_that_say_where_to_start_the_one_that_spark_prefers_counts() -> None:
    of_queues = '{"orders": {"0": 7}}'
    everything = {"startingOffsets": of_queues, "startingOffsetsByTimestamp": of_queues, "startingTimestamp": "9"}
    assert parse(**everything).starting == Times("startingTimestamp=9", None, 9)
    del everything["startingTimestamp"]
    assert parse(**everything).starting == Times("startingOffsetsByTimestamp", {("orders", 0): 7})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "options subscribe and assign: expected one of subscribe, subscr"),
        ({"subscribe": " , "}, "subscribe=' , ': names no topic"),
        ({"subscribePattern": " "}, "subscribePattern=' ': empty"),
        ({"subscribePattern": "order["}, "subscribePattern='order[': no regular expression of Python's"),
        ({"assign": "orders"}, 'expected queue ids by topic, as {"orders": [0, 1]}; this is no JSON'),
        ({"assign": "[0]"}, "assign='[0]': expected queue ids by topic"),
        ({"assign": "{}"}, "assign='{}': names no queue"),
        ({"assign": '{"orders": [true]}'}, "topic 'orders' has [True]"),
        ({"assign": '{"orders": [-1]}'}, "topic 'orders' has [-1]"),
        ({"assign": '{"orders": [2147483648]}'}, "topic 'orders' has [2147483648]"),
        ({"assign": '{"orders": 0}'}, "topic 'orders' has 0"),
        (
            {"startingOffsets": "first"},
            "startingOffsets='first': expected earliest, latest, or a number for each queue",
        ),
        ({"startingOffsets": '{"a": 5}'}, "topic 'a' has 5"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "queue '0' has -3"),
        ({"startingOffsets": '{"a": {"0": 9223372036854775808}}'}, "queue '0' has 9223372036854775808"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "queue '0' has 1.5"),
        ({"startingOffsets": '{"a": {"²": 1}}'}, "queue '²' has 1"),
        ({"startingOffsets": '{"a": {"99999999999": 1}}'}, "queue '99999999999' has 1"),
        ({"startingOffsetsByTimestamp": "earliest"}, "startingOffsetsByTimestamp='earliest': expected a number for"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "queue '0' has -1"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp='yesterday': expected a store time in ms since 1970"),
        ({"endingTimestamp": "-1"}, "endingTimestamp='-1'"),
        ({"endingTimestamp": "9" * 5000}, "expected a store time in ms since 1970"),
        ({"startingOffsetsByTimestampStrategy": "none"}, "Strategy='none': expected error or latest"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss='no': expected true or false"),
        ({"subscribe": "orders,RMQ_SYS_TRACE_TOPIC"}, "topic 'RMQ_SYS_TRACE_TOPIC': RocketMQ keeps it for itself"),
        ({"assign": '{"SCHEDULE_TOPIC_XXXX": [0]}'}, "expected includeInternal=true beside it"),
    ],
)
def test_wrong_options_say_what_was_expected(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        parse(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets='latest': a batch query cannot start at the latest offset"),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest': a batch query cannot end at the earliest offset"),
        ({"startingOffsets": '{"a": {"0": 5, "1": -1}}'}, "startingOffsets: topic a queue 1 has -1: a batch query"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "endingOffsets: topic a queue 0 has -2: a batch query cannot end"),
    ],
)
def test_a_batch_neither_starts_at_the_latest_nor_ends_at_the_earliest(options: dict[str, str], said: str) -> None:
    selection = parse(**options)
    with pytest.raises(InvalidSettingsError) as caught:
        selection.require_batch()
    assert said in str(caught.value)


def test_internal_topics_are_chosen_on_request() -> None:
    selection = parse(includeInternal="true", subscribe="SCHEDULE_TOPIC_XXXX")
    assert selection.takes(("SCHEDULE_TOPIC_XXXX", 3))
    assert parse(subscribePattern=".*").takes(("orders", 0))
    assert not parse(subscribePattern=".*").takes(("RMQ_SYS_TRACE_TOPIC", 0))
    assert parse(includeInternal="true", subscribePattern=".*").takes(("RMQ_SYS_TRACE_TOPIC", 0))


def test_a_pattern_matches_whole_names_and_light_queues_only_by_their_prefix() -> None:
    pattern = parse(subscribePattern="order|%LMQ%")
    assert pattern.takes(("order", 0))
    assert not pattern.takes(("orders", 0))
    assert not parse(subscribePattern=".*").takes(("%LMQ%a", 0))
    assert not parse().takes(("%LMQ%a", 0))
    assert parse(subscribePattern="%LMQ%.*").takes(("%LMQ%a", 0))
    assert parse(subscribe="%LMQ%a").takes(("%LMQ%a", 0))
