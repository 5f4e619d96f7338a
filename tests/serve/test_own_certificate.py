"""TLS with certificates of one's own: read, renewed, and refused."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.serve.http2 import own_certificate
from flightlog.serve.http2.certificates import development_tls
from flightlog.serve.http2.own_certificate import OwnCertificate
from flightlog.serve.program import ServeOptions, run
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.serve.test_command import served as running
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


def pem_of(folder: Path) -> Path:
    """A file with a key and a certificate, signed by an authority of its own."""
    development_tls(folder, ())
    return folder / "server.pem"


def is_trusted(port: int, authority: Path, host: str = "localhost") -> bool:
    """Whether the server shows a certificate of this authority, and speaks HTTP/2. A client names no address in its
    handshake, only a host name."""
    trusting = ssl.create_default_context(cafile=authority)
    trusting.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
            trusting.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.selected_alpn_protocol() == "h2"
    except ssl.SSLCertVerificationError:
        return False


def test_a_renewed_certificate_counts_and_a_wrong_one_does_not(
    tmp_path: Path, assert_clean: AssertClean, caplog: pytest.LogCaptureFixture
) -> None:
    shown = tmp_path / "shown.pem"
    shutil.copy(pem_of(tmp_path / "old"), shown)
    certificate = OwnCertificate(shown, shown)
    served = ServedStore(tmp_path / "store", SETTINGS, certificate.context)
    served.start()
    try:
        assert is_trusted(served.port, tmp_path / "old" / "ca.pem")
        shutil.copy(pem_of(tmp_path / "new"), shown)
        with caplog.at_level(logging.INFO, "flightlog.serve"):
            certificate.refresh()
            assert is_trusted(served.port, tmp_path / "new" / "ca.pem")
            assert is_trusted(served.port, tmp_path / "new" / "ca.pem", "127.0.0.1")
            assert not is_trusted(served.port, tmp_path / "old" / "ca.pem")
            shown.write_text("nothing")
            certificate.refresh()
            shown.unlink()
            certificate.refresh()
            certificate.refresh()
        assert is_trusted(served.port, tmp_path / "new" / "ca.pem")
        told = [record.levelname for record in caplog.records if "certificate" in record.message]
        assert told == ["INFO", "ERROR", "ERROR"]
    finally:
        served.stop()
    assert_clean(served.path)


def test_a_client_that_comes_while_the_certificate_is_read_is_served(
    tmp_path: Path, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL sets the certificate, and then its key: a context that clients use has no key in between."""
    pems = {name: pem_of(tmp_path / name) for name in ("old", "new", "third")}
    shown = tmp_path / "shown.pem"
    came: list[bool] = []
    served: ServedStore | None = None
    shutil.copy(pems["old"], shown)

    class InTheMiddle(ssl.SSLContext):
        def load_cert_chain(self, *files: Any, **options: Any) -> None:
            with contextlib.suppress(ssl.SSLError):
                super().load_cert_chain(pems["new"], pems["third"])
            if served is not None:
                came.append(is_trusted(served.port, tmp_path / "old" / "ca.pem"))
            super().load_cert_chain(*files, **options)

    def context_of(protocol: str) -> ssl.SSLContext:
        context = InTheMiddle(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols([protocol])
        return context

    monkeypatch.setattr(own_certificate, "server_context", context_of)
    certificate = OwnCertificate(shown, None)
    served = ServedStore(tmp_path / "store", SETTINGS, certificate.context)
    served.start()
    try:
        shutil.copy(pems["new"], shown)
        certificate.refresh()
        assert came and all(came)
        assert is_trusted(served.port, tmp_path / "new" / "ca.pem")
    finally:
        served.stop()
    assert_clean(served.path)


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match="No such file"):
        OwnCertificate(tmp_path / "none.pem", None)
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(flightlog.InvalidArgumentError, match="--tls-cert"):
        OwnCertificate(tmp_path / "empty.pem", None)
    ours, others = pem_of(tmp_path / "ours"), pem_of(tmp_path / "others")
    with pytest.raises(flightlog.InvalidArgumentError, match="KEY_VALUES_MISMATCH"):
        OwnCertificate(ours, others)


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    pem = pem_of(tmp_path / "ours")
    key = serialization.load_pem_private_key(pem.read_bytes(), None)
    form, protection = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, protection))
    with pytest.raises(flightlog.InvalidArgumentError, match="without a password"):
        OwnCertificate(pem, tmp_path / "key.pem")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tls_key": Path("key.pem")}, "--tls-cert as well"),
        ({"tls_cert": Path("cert.pem"), "tls_dev": True}, "not both"),
        ({"tls_cert": Path("cert.pem")}, "No such file"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match=re.escape(told)):
        run(ServeOptions((tmp_path / "store",), settings=flightlog.StoreSettings.small(), **wrong))


def test_the_program_takes_a_renewed_certificate(tmp_path: Path, assert_clean: AssertClean) -> None:
    shown = tmp_path / "shown.pem"
    shutil.copy(pem_of(tmp_path / "old"), shown)
    with running(str(tmp_path / "store"), "--port", "0", "--tls-cert", str(shown)) as (process, port):
        assert is_trusted(port, tmp_path / "old" / "ca.pem")
        shutil.copy(pem_of(tmp_path / "new"), shown)
        ends_s = deadline()
        while not is_trusted(port, tmp_path / "new" / "ca.pem"):
            assert time.monotonic() < ends_s
            time.sleep(0.05)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert_clean(tmp_path / "store")
