"""Why a call to a server did not do what it was to do. The tree of all errors is in store/errors.py.

What the store behind the server refuses is raised as the store raises it, where the protocol says which error it was.
"""

from __future__ import annotations

from ...store.errors import FlightlogError


class ServerUnavailableError(FlightlogError):
    """No answer of a server came in time. `may_be_done` says what became of the call.

    False: the server was not reached, and nothing was sent. True: the call was sent, and it is not known whether the
    server did it. A message of such a put may be stored: ask `was_stored` at the store, or send it again and have its
    consumers expect it twice.
    """

    def __init__(self, address: str, call: str, reason: str, *, may_be_done: bool) -> None:
        fate = "the server may have done it" if may_be_done else "nothing was sent; call again"
        super().__init__(f"{address}: {call}: no answer ({reason}): {fate}")
        self.address, self.call, self.may_be_done = address, call, may_be_done


class ServerRefusedError(FlightlogError):
    """A server refused a call for a reason that no other error of flightlog names. `code` is the name of RocketMQ's
    code, such as FORBIDDEN, or of gRPC's."""

    def __init__(self, address: str, call: str, code: str, text: str) -> None:
        super().__init__(f"{address}: {call} was refused: {code}: {text}")
        self.address, self.call, self.code, self.text = address, call, code, text
