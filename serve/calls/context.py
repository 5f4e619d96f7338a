"""Who makes a request, and until when an answer is of use."""

from __future__ import annotations

from dataclasses import dataclass

from ..http2.call import Call
from .protocol import Code
from .refusals import Refused

CLIENT_ID = "x-mq-client-id"


@dataclass(frozen=True)
class Context:
    """The context of one call, from its headers."""

    client_id: str
    client_version: str
    authority: str
    """The address that the client dialled, as it writes it."""
    peer: tuple[str, int]
    call: Call

    @classmethod
    def of(cls, call: Call) -> Context:
        """Raises Refused for a client without an id."""
        headers = call.headers
        client_id = headers.get(CLIENT_ID, "")
        if not client_id.strip():
            raise Refused(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
        version, authority = headers.get("x-mq-client-version", ""), headers.get(":authority", "")
        return cls(client_id, version, authority, (call.peer, call.peer_port), call)
