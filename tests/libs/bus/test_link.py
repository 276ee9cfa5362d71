"""Rights, credentials, TLS and the micro service: what the connection itself has to get right."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import nats as bare
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from libs import bus
from libs.embedded.nats_server import NatsServer
from tests.libs.bus.conftest import Connect, consuming, speaking, until
from tests.libs.bus.sample import publish_node

USERS = """
authorization { users: [
  { user: writer, password: right }
  { user: watcher, password: right, permissions: {
      publish: ["nodetrail.observed.node.>", "$JS.API.CONSUMER.INFO.TRAIL.other"], subscribe: ["_INBOX_watcher.>"] } }
] }
"""

Start = Callable[[str], NatsServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[NatsServer] = []

    def start(config: str) -> NatsServer:
        server = NatsServer(tmp_path / f"server{len(servers)}", config=config)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.process.kill()


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("right\n")
    return file


async def test_a_user_of_its_own_rights_publishes_its_own_subjects_only(
    start: Start, connect: Connect, password: Path
) -> None:
    url = start(USERS).url
    secret = str(password)
    async with (
        connect("writer", nats_url=url, nats_user="writer", nats_password_file=secret) as writer,
        connect("watcher", nats_url=url, nats_user="watcher", nats_password_file=secret) as watcher,
    ):
        await writer.nats.ensure_streams()
        await publish_node(watcher.nats)
        assert watcher.health.ready
        began = asyncio.get_running_loop().time()
        denied = asyncio.ensure_future(
            watcher.nats.publish(
                (await newest(writer.nats)).event, subject="nodetrail.observed.read.ns.Stranger", message_id="x"
            )
        )
        await until(lambda: "publish" in watcher.health.waits)
        assert watcher.health.waits["publish"] == "permission denied: nodetrail.observed.read.ns.Stranger"
        assert asyncio.get_running_loop().time() - began < 3  # and not after the time-out that nats-py would give
        await publish_node(watcher.nats, "n2")  # what is allowed goes on meanwhile
        assert "publish" in watcher.health.waits
        denied.cancel()
        await until(lambda: watcher.health.ready)
        async with consuming(watcher, lambda _: None, durable="mine", make=False):
            await until(lambda: "permission denied" in watcher.health.waits.get("mine", ""))


async def newest(nats: bus.Bus) -> bus.Delivery:
    return [d async for d in nats.newest(bus.TRAIL, ">")][-1]


async def test_a_denied_pull_is_said(start: Start, connect: Connect, password: Path) -> None:
    url = start(USERS).url
    secret = str(password)
    async with (
        connect("writer", nats_url=url, nats_user="writer", nats_password_file=secret) as writer,
        connect("watcher", nats_url=url, nats_user="watcher", nats_password_file=secret) as watcher,
    ):
        await writer.nats.ensure_streams()
        await writer.nats.ensure_consumer(bus.TRAIL, "other", filter_subjects=["nodetrail.observed.>"])
        async with consuming(watcher, lambda _: None, durable="other", make=False):
            await until(lambda: "MSG.NEXT.TRAIL.other" in watcher.health.waits.get("other", ""))


async def test_the_password_is_read_anew_at_each_try(start: Start, connect: Connect, password: Path) -> None:
    url = start(USERS).url
    password.write_text("wrong")
    async with connect("writer", nats_url=url, nats_user="writer", nats_password_file=str(password)) as site:
        await until(lambda: "authorization violation" in site.health.waits.get("nats", "").lower())
        assert "wrong" not in site.health.waits["nats"]
        password.unlink()
        await until(lambda: "No such file" in site.health.waits.get("nats", ""))
        password.write_text("right")
        await until(lambda: site.nats.connected)


async def test_secrets_in_the_url_are_not_shown(connect: Connect) -> None:
    async with connect(nats_url="nats://joe:s3cret@127.0.0.1:1") as site:
        await until(lambda: ": " in site.health.waits.get("nats", ""))
        assert "127.0.0.1:1" in site.health.waits["nats"]
        assert "s3cret" not in site.health.waits["nats"]


def certificates(folder: Path) -> None:
    """A CA, and a server certificate for the loopback address."""
    now = datetime.now(UTC)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    base = x509.CertificateBuilder().not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    ca = (
        base.subject_name(name("ca"))
        .issuer_name(name("ca"))
        .public_key(ca_key.public_key())
        .serial_number(1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        base.subject_name(name("nats"))
        .issuer_name(name("ca"))
        .public_key(key.public_key())
        .serial_number(2)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "leaf.pem").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(pem_key(key))


async def test_tls_with_our_own_ca(start: Start, connect: Connect, tmp_path: Path) -> None:
    certificates(tmp_path)
    files = f'cert_file: "{tmp_path}/leaf.pem", key_file: "{tmp_path}/key.pem"'
    server = start(f"tls {{ {files} }}")
    async with connect(nats_url=server.url, nats_ca_file=str(tmp_path / "ca.pem")) as site:
        await site.nats.ensure_streams()
        await publish_node(site.nats)
    (tmp_path / "other").mkdir()
    certificates(tmp_path / "other")
    async with connect(nats_url=server.url, nats_ca_file=str(tmp_path / "other" / "ca.pem")) as site:
        await until(lambda: "certificate" in site.health.waits.get("nats", "").lower())
        assert not site.nats.connected


async def test_no_credentials_leave_without_tls_where_tls_is_set(
    connect: Connect, tmp_path: Path, password: Path
) -> None:
    """Who sits in between can leave TLS out of the server's first line."""
    certificates(tmp_path)
    heard = b""

    async def without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        with contextlib.suppress(ConnectionError):
            writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n')
            heard += await reader.read(4096)

    async with (
        speaking(without_tls) as port,
        connect(
            nats_url=f"nats://127.0.0.1:{port}",
            nats_user="joe",
            nats_password_file=str(password),
            nats_ca_file=str(tmp_path / "ca.pem"),
        ) as site,
    ):
        await until(lambda: "no credentials were sent" in site.health.waits.get("nats", ""))
    assert b"right" not in heard


async def test_it_is_a_micro_service_on_every_connection(connect: Connect, server: NatsServer) -> None:
    async def ping() -> dict[str, object]:
        client = await bare.connect(server.url)
        try:
            answer = await client.request("$SRV.PING.discovery", b"", timeout=5)
            found: dict[str, object] = json.loads(answer.data)
            info = json.loads((await client.request("$SRV.INFO.discovery", b"", timeout=5)).data)
            assert info["description"] == "sweeps"
            assert (await client.request("$SRV.STATS.discovery", b"", timeout=5)).data
        finally:
            await client.close()
        return found

    async with connect("discovery") as site, site.nats.micro("discovery", "1.2.3", "sweeps"):
        await until(lambda: site.nats.connected)
        first = await ping()
        assert (first["name"], first["version"]) == ("discovery", "1.2.3")
        server.process.kill()
        await until(lambda: not site.nats.connected)
        await asyncio.to_thread(server.start)
        await until(lambda: site.nats.connected)
        assert (await ping())["name"] == "discovery"
