"""From a store's folder to RocketMQ's own brokers: is it fit for one, and which `broker.conf` fits it.

    check ──> log_survey
      │
      ├─────> broker_conf ──> sizes
      └─────> findings

RocketMQ is the distributed engine; nothing of one is built here. All of it reads, and changes nothing.
"""

from .broker_conf import FOR_EVER_HOURS, broker_conf
from .check import check
from .findings import HandoverFinding, HandoverReport

__all__ = ["FOR_EVER_HOURS", "HandoverFinding", "HandoverReport", "broker_conf", "check"]
