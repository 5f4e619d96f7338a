"""Where the server answers otherwise than RocketMQ's proxy, and why. docs/serve.md tells users the same."""

from __future__ import annotations

UNKNOWN_TOPIC = "an unknown topic is TOPIC_NOT_FOUND in every call; the proxy: NullPointerException or a conflict"
BATCHES = "a batch is answered with an entry for each message, each with its own id and offset; delayed ones are taken"
HANDLES = "a receipt handle that is none is INVALID_RECEIPT_HANDLE; the proxy tells Java exceptions of its parser"
HANDLE_BACK = "a change that is refused gives the handle back, since clients take it before they look at the status"
FOREIGN = "an acknowledgement of what is not there is OK: there is nothing left to do"
SQL = "a wrong filter is ILLEGAL_FILTER_EXPRESSION, with the place; the proxy: INTERNAL_SERVER_ERROR"
EXPIRED_FORWARD = "an expired handle is answered OK and nothing is stored: the message comes again"

EXPLAINED: dict[str, str] = {
    r"route: by a domain name": "the address in the request is the one that comes back, with its port",
    r"send: to a topic (of a retry topic|of a dead letter topic|unknown)": UNKNOWN_TOPIC,
    r"receive: of a topic (of a retry topic|of a dead letter topic|unknown)": UNKNOWN_TOPIC,
    r"type: TRANSACTION to (deals|mixed), time": "a message of a transaction has no time of delivery",
    r"batch: (three|delayed|in a group)": BATCHES,
    r"batch: in transactions": "MESSAGE_CORRUPTED with a text that says why",
    r"receive: without a client id": "a receive that is refused ends with a time of delivery, too",
    r"receive: a (batch of none|negative batch)": "a batch is one message at least",
    r"filter: by tag '\|\| \|\|'": "tags that name none are ILLEGAL_FILTER_EXPRESSION; the proxy finds nothing",
    r"filter: by SQL .*": SQL,
    r"(ack|change|forward): (an empty handle|no handle|a handle of words)": HANDLES,
    r"ack: good and bad": HANDLES,
    r"change: (a handle of zeros|a handle of the past|expired)": HANDLE_BACK,
    r"forward: (a handle of zeros|a handle of the past)": EXPIRED_FORWARD,
    r"(ack|change): a topic (of a retry topic|of a dead letter topic|unknown)": FOREIGN,
    r"forward: a topic (of a retry topic|of a dead letter topic|unknown)": "what is not there is no dead letter",
    r"delay: in the year 58868": "ILLEGAL_DELIVERY_TIME; the proxy: INTERNAL_SERVER_ERROR with a Java exception",
    r"recall: with.*": "a recall handle that is none is BAD_REQUEST; the proxy: INTERNAL_SERVER_ERROR",
    r"absent: SyncLiteSubscription": "lite topics are not served",
}
"""A question, as a pattern -> why its answer is another one than of both proxies."""
