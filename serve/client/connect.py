"""`flightlog.connect`: light, so that the face can import it."""

from __future__ import annotations

import os
import re
import ssl
from typing import TYPE_CHECKING

from ...store.arguments import check_seconds, check_text, checked_path
from ...store.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from .remote_store import RemoteStore

ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


def connect(
    address: str,
    *,
    timeout_s: float = 30.0,
    tls: bool = False,
    ca_file: str | os.PathLike[str] | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> RemoteStore:
    """A store that `flightlog serve` serves at `address`, for programs with several processes:

        with flightlog.connect("127.0.0.1:8081") as store:
            store.put(flightlog.Message("orders", b"created"))

    It connects at the first call, and again by itself after the server was away or the process has forked. `timeout_s`
    is how many seconds a call takes at most, waiting for a server that is away included; a receive may take its
    `wait_s` longer. `tls` has the connection encrypted and the server's certificate checked, by the authorities in
    `ca_file` (PEM) if one is given (then `tls` is not needed). `access_key` and `secret_key` sign every call, as
    RocketMQ's clients do.

    Raises InvalidArgumentError, and MissingExtraError without the extra `serve`.
    """
    check_text("address", address)
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise InvalidArgumentError("address", address, "HOST:PORT, such as 127.0.0.1:8081 or [::1]:8081")
    check_seconds("timeout_s", timeout_s, 86_400)
    keys = None
    if access_key is not None or secret_key is not None:
        check_text("access_key", access_key, "text, beside a secret_key")
        check_text("secret_key", secret_key, "text, beside an access_key")
        keys = str(access_key), str(secret_key)
    authorities = None if ca_file is None else checked_path("ca_file", ca_file)
    try:
        from .remote_store import RemoteStore
        from .rpc import Rpc
    except ImportError as e:
        raise MissingExtraError("serve", f"connecting to a served store (no module {e.name} here)") from e
    context: ssl.SSLContext | None = None
    if tls or authorities is not None:
        try:
            context = ssl.create_default_context(cafile=authorities)
        except OSError as e:  # ssl.SSLError is one
            raise InvalidArgumentError("ca_file", authorities, f"a file of certificates in PEM: {e}") from e
        context.set_alpn_protocols(["h2"])
    return RemoteStore(Rpc(address, timeout_s, tls=context, keys=keys))
