"""The process and its host: handshake, TLS, and leaving when the host is gone."""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import signal
import stat
import sys
import threading
from collections.abc import Mapping

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

COOKIE = ("MOONCAKE_PLUGIN_COOKIE", "3d6b0f1c-mooncake-plugin")
LIFELINE = "MOONCAKE_PLUGIN_LIFELINE_FD"
LOG_LEVEL = "MOONCAKE_PLUGIN_LOG_LEVEL"
SOCKETS = "PLUGIN_UNIX_SOCKET_DIR"
CLIENT_CERT = "PLUGIN_CLIENT_CERT"
VERSIONS = "PLUGIN_PROTOCOL_VERSIONS"

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_HOST_GONE = 0, 1, 2, 3


def negotiate(offered: str, spoken: list[int]) -> int:
    """Choose the highest contract version that host and plugin share. If they share none,
    return one of the plugin's: the host then reports the mismatch."""
    host = {int(v) for v in offered.split(",") if v.strip().isdigit()}
    return max(host & set(spoken), default=min(spoken))


def server_credentials(client_cert: bytes) -> tuple[grpc.ServerCredentials, str]:
    """Make credentials that admit only the holder of client_cert, and the text by which the
    host recognises this server: its certificate, DER in base64 without padding."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    creds = grpc.ssl_server_credentials(
        [(pem, cert.public_bytes(serialization.Encoding.PEM))],
        root_certificates=client_cert,
        require_client_auth=True,
    )
    der = cert.public_bytes(serialization.Encoding.DER)
    return creds, base64.b64encode(der).decode().rstrip("=")


def keep_stdout_for_handshake() -> int:
    """Redirect all prints to standard error, and return the real standard output."""
    real = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return real


def watch_host(env: Mapping[str, str]) -> None:
    """End the process when the host is gone: on SIGTERM and SIGHUP, and when the lifeline
    closes, a socket whose other end only the host holds."""

    def leave(*_: object) -> None:
        _leave(env)

    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    text = env.get(LIFELINE, "")
    if not text:
        return  # The host has no lifeline.
    if not text.isdigit() or int(text) < 3:
        raise ValueError(f"{LIFELINE}={text!r} is not the number of an open file descriptor")
    fd = int(text)
    os.set_inheritable(fd, False)  # Child processes must not hold the lifeline.

    def wait() -> None:
        # The host never sends anything; a read returns once the other end is closed.
        with contextlib.suppress(OSError):
            while os.read(fd, 64):
                pass
        leave()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def _leave(env: Mapping[str, str]) -> None:
    """Kill this process group at once, and first remove the socket, which would stay otherwise."""
    folder = env.get(SOCKETS, "")
    if folder:
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    os.unlink(entry.path)
            os.rmdir(folder)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # this process too
    os._exit(EXIT_HOST_GONE)
