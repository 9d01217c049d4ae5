"""A host for one plugin process, as far as the protocol goes: what mooncake does."""

import base64
import contextlib
import datetime
import os
import pathlib
import select
import socket
import subprocess
import tempfile

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooncake_plugin.protocol import stub

LIMIT = 60
"""Seconds; reached only where something hangs."""


def certificate():
    """A key and a certificate of a host, PEM both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), cert.public_bytes(
        pem
    )


class Hosted:
    """A running plugin. `env` overrides its environment, None takes a variable away."""

    def __init__(self, argv, env=None, keep=(), executable=None):
        self.key, self.cert = certificate()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="host"))
        self.line, theirs = socket.socketpair()
        base = {
            "PATH": os.environ["PATH"],
            "MOONCAKE_PLUGIN_COOKIE": "3d6b0f1c-mooncake-plugin",
            "MOONCAKE_PLUGIN_LIFELINE_FD": str(theirs.fileno()),
            "MOONCAKE_PLUGIN_LOG_LEVEL": "INFO",
            "PLUGIN_PROTOCOL_VERSIONS": "1",
            "PLUGIN_CLIENT_CERT": self.cert.decode(),
            "PLUGIN_UNIX_SOCKET_DIR": str(self.dir),
        }
        base.update(env or {})
        self.process = subprocess.Popen(
            argv,
            executable=executable,
            env={k: v for k, v in base.items() if v is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), *keep),
            process_group=0,
        )
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.line.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()

    def handshake(self):
        """The fields of the line that the plugin says first."""
        assert select.select([self.process.stdout], [], [], LIMIT)[0], "no handshake"
        return self.process.stdout.readline().decode().rstrip("\n").split("|")

    def channel(self, fields, key=None, cert=None, secure=True):
        """A connection, as the holder of a certificate."""
        target = f"unix:{fields[3]}"
        if not secure:
            return grpc.insecure_channel(target)
        der = base64.b64decode(fields[5] + "=" * (-len(fields[5]) % 4))
        theirs = x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM)
        creds = grpc.ssl_channel_credentials(theirs, key, cert)
        return grpc.secure_channel(target, creds, (("grpc.ssl_target_name_override", "localhost"),))

    def connect(self, service="mooncake.evict.v1.EvictService"):
        """Stubs of both services, and the connection."""
        channel = self.channel(self.handshake(), self.key, self.cert)
        return stub("mooncake.plugin.v1.LifecycleService", channel), stub(service, channel), channel

    def ends(self):
        """Wait for the end; the exit status and the log's lines."""
        _, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, err.decode().splitlines()
