"""nats-server and services as children: started side by side, found by what they log, stopped in order."""

import json
import textwrap
from pathlib import Path

import nats
import pytest
import yaml

from libs.embedded.accounts import ACCOUNTS, Accounts
from libs.embedded.nats_server import NatsServer
from libs.embedded.process import ProcessError
from libs.embedded.service import ServiceProcess
from libs.embedded.stack import Stack

SERVICE = """
    import http.server, json, os, signal, sys
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = json.dumps({k: v for k, v in os.environ.items() if k.startswith("NODETRAIL_") or k == "KUBECONFIG"})
            self.send_response(503 if os.environ.get("NODETRAIL_LAZY") else 200)
            self.end_headers()
            self.wfile.write(b"nats: away" if os.environ.get("NODETRAIL_LAZY") else answer.encode())
        def log_message(self, *args): pass
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(LINE % server.server_address, flush=True)
    server.serve_forever()
"""
JSON = json.dumps({"address": "ADDRESS", "event": "listening", "level": "info"}).replace("ADDRESS", "%s:%s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "services" / "fake"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"LINE = {JSON!r}\n" + textwrap.dedent(SERVICE))
    return tmp_path


def fake(root: Path, label: str = "fake", **settings: object) -> ServiceProcess:
    return ServiceProcess("fake", settings, log_file=root / f"{label}.log", label=label, root=root)


def test_a_service_gets_its_own_settings_and_none_of_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODETRAIL_RANGES", "ours")
    monkeypatch.setenv("KUBECONFIG", "ours")
    with Stack(root / "stack") as stack:
        service = fake(root, site="lab")
        stack.start(service)
        status, text = service.get("/readyz")
        assert status == 200
        assert json.loads(text) == {
            "NODETRAIL_LISTEN": "127.0.0.1:0",
            "NODETRAIL_LOG_FORMAT": "json",
            "NODETRAIL_SITE": "lab",
        }
        assert service.url.startswith("http://127.0.0.1:")
    assert not service.process.is_running
    assert service.process.exit_code == 0


@pytest.mark.parametrize("line", ["2026-12-01T10:00:00Z [info] listening   address=%s:%s name=fake", JSON])
def test_the_address_is_found_in_text_and_in_json(root: Path, line: str) -> None:
    (root / "services/fake/__main__.py").write_text(f"LINE = {line!r}\n" + textwrap.dedent(SERVICE))
    service = fake(root)
    service.start()
    assert service.get("/")[0] == 200
    service.stop()


def test_one_that_never_gets_ready_says_what_it_waits_for(root: Path) -> None:
    service = fake(root, lazy="yes")
    service.spawn()
    with pytest.raises(ProcessError, match="nats: away"):
        service.wait_ready(0.3)
    service.kill()
    assert service.get("/readyz") == (0, "")


def test_a_restarted_service_is_found_at_its_new_address(root: Path) -> None:
    service = fake(root)
    service.start()
    first = service.process.pid
    service.restart()
    assert service.process.pid != first
    assert service.get("/")[0] == 200
    service.stop()


def test_everything_is_stopped_when_a_start_fails(root: Path) -> None:
    good, bad = fake(root, "good"), ServiceProcess("absent", {}, log_file=root / "absent.log", root=root)
    with pytest.raises(ProcessError, match=r"No module named services\.absent"), Stack(root / "stack") as stack:
        stack.start(good, bad)
    assert not good.process.is_running


def test_services_are_told_of_nats_and_of_their_kubeconfig(tmp_path: Path) -> None:
    kubeconfigs = {"status-writer": tmp_path / "writer", "kubelet": tmp_path / "kubelet"}
    stack = Stack(tmp_path, kubeconfigs=kubeconfigs)
    with pytest.raises(ProcessError, match="start it first"):
        _ = stack.nats_server().url
    assert stack.nats is not None
    stack.nats.port = 4242
    writer = stack.service("status_writer")._environ
    assert writer["NODETRAIL_NATS_URL"] == "nats://127.0.0.1:4242"
    assert writer["KUBECONFIG"] == str(tmp_path / "writer")
    simulator = stack.service("simulator", seed=1)._environ
    assert "NODETRAIL_NATS_URL" not in simulator
    assert simulator["KUBECONFIG"] == str(tmp_path / "kubelet")
    assert "KUBECONFIG" not in stack.service("discovery")._environ
    assert stack.service("discovery").label == "discovery-2"


def test_each_account_has_a_token_and_a_kubeconfig_of_its_own(tmp_path: Path) -> None:
    accounts = Accounts()
    accounts.write_token_file(tmp_path / "tokens")
    paths = accounts.write_kubeconfigs(tmp_path / "k", server="https://127.0.0.1:1", authority=b"PEM")
    tokens = (tmp_path / "tokens").read_text()
    assert tokens.count("\n") == len(ACCOUNTS) == len({accounts.token(a) for a in ACCOUNTS})
    assert (tmp_path / "tokens").stat().st_mode & 0o077 == 0
    for account, path in paths.items():
        assert yaml.safe_load(path.read_text())["users"][0]["user"]["token"] == accounts.token(account)
    writer = f"{accounts.token('status-writer')},system:serviceaccount:nodetrail-system:status-writer,"
    assert writer in tokens
    assert "masters" not in next(line for line in tokens.splitlines() if line.startswith(writer))


async def test_nats_server_keeps_its_port_and_its_streams(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    client = await nats.connect(server.url)
    await client.jetstream().add_stream(name="S", subjects=["s"])
    await client.jetstream().publish("s", b"kept")
    await client.close()
    url = server.url
    server.kill()
    server.start()
    assert server.url == url
    client = await nats.connect(server.url)
    assert (await client.jetstream().get_last_msg("S", "s")).data == b"kept"
    await client.close()
    server.stop()
    assert not server.process.is_running


def test_a_bad_configuration_is_told_with_the_servers_words(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="no_such_option"):
        NatsServer(tmp_path, config="no_such_option: 1").start()


def test_a_token_that_looks_like_a_number_stays_text_for_every_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YAML libraries disagree about `12345678e9`: some read a number where others read text."""
    monkeypatch.setattr("secrets.token_hex", lambda count: ("12345678e9" * count)[: 2 * count])
    for path in Accounts().write_kubeconfigs(tmp_path, server="https://127.0.0.1:1").values():
        assert f'"token": "{("12345678e9" * 16)[:32]}"' in path.read_text()
