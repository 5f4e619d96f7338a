"""A request or a response: RocketMQ's `RemotingCommand`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from .codes import VERSION

RESPONSE, ONE_WAY = 1, 2
"""Bits of `flag`."""
INT32 = range(-(1 << 31), 1 << 31)
LANGUAGES = {
    0: "JAVA",
    1: "CPP",
    2: "DOTNET",
    3: "PYTHON",
    4: "DELPHI",
    5: "ERLANG",
    6: "RUBY",
    7: "OTHER",
    8: "HTTP",
    9: "GO",
    10: "PHP",
    11: "OMS",
    12: "RUST",
    13: "NODE_JS",
}
"""`LanguageCode`"""


class HeaderKind(enum.IntEnum):
    """How a header is written (`SerializeType`)."""

    JSON = 0
    ROCKETMQ = 1


class InvalidFrameError(Exception):
    """The bytes are no frame of the protocol; its connection is closed."""


@dataclass(frozen=True)
class Command:
    """`code` is one of RequestCode in a request, one of ResponseCode in a response."""

    code: int
    opaque: int = 0
    """The number by which a response finds its request."""
    flag: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    """`extFields`"""
    body: bytes = b""
    remark: str | None = None
    language: str = "JAVA"
    version: int = VERSION
    kind: HeaderKind = HeaderKind.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & ONE_WAY)
