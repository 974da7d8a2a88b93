"""A REST catalog over TLS, with a certificate authority and client certificates of its own, and through a proxy."""

import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog
from rest_fault_proxy import FaultProxy, Loopback, QuietServer
from rest_tools import RestLake
from thalweg_test_tools import rows_of

pytestmark = pytest.mark.jvm
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        self.certificate = folder / "ca.pem"
        self.openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={folder.name}"),
            *("-keyout", folder / "ca.key", "-out", self.certificate),
        )

    @staticmethod
    def openssl(*arguments) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def issue(self, name: str, alternative: str) -> tuple[Path, Path]:
        """A certificate for a name ("IP:127.0.0.1"), and its key."""
        certificate, key, request = (self.folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        names = self.folder / f"{name}.txt"
        names.write_text(f"subjectAltName={alternative}\n")
        self.openssl(*("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request))
        self.openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.folder / "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", names, "-out", certificate),
        )
        return certificate, key


class ForwardProxy(Loopback):
    """An HTTP proxy that makes tunnels; `asked` is for where. With `answer` it refuses with that status."""

    def __init__(self):
        self.asked: list[str] = []
        self.answer = 200
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self):
                proxy.asked.append(self.path)
                self.send_response(proxy.answer)
                self.end_headers()
                if proxy.answer != 200:
                    return
                host, port = self.path.rsplit(":", 1)
                with socket.create_connection((host, int(port))) as server:
                    pumps = [threading.Thread(target=pump, args=ends, daemon=True) for ends in both(self, server)]
                    for each in pumps:
                        each.start()
                    for each in pumps:
                        each.join()

            def log_message(self, *arguments):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self.server.server_address[1]}"


def both(handler: BaseHTTPRequestHandler, server: socket.socket):
    return (handler.connection, server), (server, handler.connection)


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "stranger")


def server_context(authority: Authority, name: str = "server", alternative: str = "IP:127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(name, alternative))
    return context


def lake_behind(uri: str, folder: Path, rest_server, **properties: str) -> RestLake:
    """Its own catalog goes straight to the server, its commands to `uri`, without proxies."""
    lake = RestLake(folder, rest_server)
    for name in PROXIES:
        lake.environment.pop(name, None)
        lake.environment.pop(name.lower(), None)
    for name in BUNDLES:
        lake.environment.pop(name, None)
    lake.environment["PYICEBERG_CATALOG__LAKE__URI"] = uri
    for key, value in properties.items():
        lake.environment[f"PYICEBERG_CATALOG__LAKE__{key}"] = str(value)
    return lake


def check_optimize(lake: RestLake) -> None:
    address = lake.make_events(files=4, rows=500)
    before = rows_of(lake.table())
    assert lake.ok("optimize", address)["outcome"] == "committed"
    assert rows_of(lake.table()) == before
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"


def test_a_private_authority(rest_server, authority, tmp_path, monkeypatch):
    for name in BUNDLES:  # which PyIceberg takes first
        monkeypatch.delenv(name, raising=False)
    with FaultProxy(rest_server.uri, server_context(authority)) as server:
        lake = lake_behind(server.uri, tmp_path / "named", rest_server, SSL__CABUNDLE=authority.certificate)
        check_optimize(lake)
        requests = len(server.requests)
        assert requests > 0 and all(path.startswith("/v1/") for _, path, _ in server.requests)
        # The same configuration serves PyIceberg.
        theirs = RestCatalog("lake", type="rest", uri=server.uri, ssl={"cabundle": str(authority.certificate)})
        assert theirs.load_table((lake.namespace, "events")).current_snapshot() is not None

        by_environment = lake_behind(server.uri, tmp_path / "environment", rest_server)
        by_environment.environment["REQUESTS_CA_BUNDLE"] = str(authority.certificate)
        check_optimize(by_environment)


def test_a_folder_of_authorities(rest_server, authority, tmp_path):
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / "ours.pem").write_bytes(authority.certificate.read_bytes())
    Authority.openssl("rehash", folder)
    with FaultProxy(rest_server.uri, server_context(authority)) as server:
        check_optimize(lake_behind(server.uri, tmp_path / "lake", rest_server, SSL__CABUNDLE=folder))


def test_certificates_that_are_not_to_be_trusted(rest_server, authority, stranger, tmp_path):
    """Nothing is sent, and the error says which server and why."""
    with FaultProxy(rest_server.uri, server_context(authority)) as server:
        lake = lake_behind(server.uri, tmp_path / "unknown", rest_server)
        address = lake.make_events(files=2, rows=50)
        message = lake.run("optimize", address).error()
        assert server.uri in message and "certificate" in message
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CABUNDLE"] = str(stranger.certificate)
        assert "certificate" in lake.run("optimize", address).error()
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CABUNDLE"] = str(tmp_path / "nowhere.pem")
        assert str(tmp_path / "nowhere.pem") in lake.run("optimize", address).error()
        assert server.requests == []
    with FaultProxy(rest_server.uri, server_context(authority, "elsewhere", "DNS:elsewhere.example")) as server:
        lake = lake_behind(server.uri, tmp_path / "elsewhere", rest_server, SSL__CABUNDLE=authority.certificate)
        assert server.uri in lake.run("status", lake.address()).error()
        assert server.requests == []


def test_client_certificates(rest_server, authority, stranger, tmp_path):
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    certificate, key = authority.issue("client", "DNS:client.example")
    with FaultProxy(rest_server.uri, context) as server:
        lake = lake_behind(server.uri, tmp_path / "with", rest_server, SSL__CABUNDLE=authority.certificate)
        assert server.uri in lake.run("status", lake.address()).error()
        assert server.requests == []
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CLIENT__CERT"] = str(certificate)
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CLIENT__KEY"] = str(key)
        check_optimize(lake)

        both_in_one = tmp_path / "both.pem"
        both_in_one.write_bytes(certificate.read_bytes() + key.read_bytes())
        lake = lake_behind(server.uri, tmp_path / "one", rest_server, SSL__CABUNDLE=authority.certificate)
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CLIENT__CERT"] = str(both_in_one)
        check_optimize(lake)

        requests = len(server.requests)
        other, other_key = stranger.issue("client", "DNS:client.example")
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CLIENT__CERT"] = str(other)
        lake.environment["PYICEBERG_CATALOG__LAKE__SSL__CLIENT__KEY"] = str(other_key)
        assert server.uri in lake.run("status", lake.address()).error()
        assert len(server.requests) == requests


def test_through_a_proxy(rest_server, authority, tmp_path):
    with FaultProxy(rest_server.uri, server_context(authority)) as server, ForwardProxy() as proxy:
        lake = lake_behind(server.uri, tmp_path / "lake", rest_server, SSL__CABUNDLE=authority.certificate)
        lake.environment["HTTPS_PROXY"] = proxy.uri
        check_optimize(lake)
        assert set(proxy.asked) == {server.uri.removeprefix("https://")}
        asked = len(proxy.asked)
        lake.environment["NO_PROXY"] = "127.0.0.1"
        assert lake.ok("status", lake.address())["units"] >= 1
        assert len(proxy.asked) == asked


def test_a_proxy_that_refuses(rest_server, authority, tmp_path):
    """A commit that never left it is no unknown outcome."""
    with FaultProxy(rest_server.uri, server_context(authority)) as server, ForwardProxy() as proxy:
        lake = lake_behind(server.uri, tmp_path / "lake", rest_server, SSL__CABUNDLE=authority.certificate)
        lake.environment["HTTPS_PROXY"] = proxy.uri
        address = lake.make_events(files=4, rows=500)
        before, location = rows_of(lake.table()), lake.table().metadata_location
        proxy.answer = 403
        assert "403" in lake.run("status", address).error()
        proxy.answer = 200

        def refuse_tunnels(method: str, path: str, answer: dict) -> None:
            proxy.answer = 403 if path.endswith("snapshots=all") else proxy.answer

        server.edit = refuse_tunnels
        done = lake.run("optimize", address)
        assert "403" in done.error(1)
        assert server.count("POST", "/tables/events") == 0
        assert lake.table().metadata_location == location and rows_of(lake.table()) == before
        proxy.answer, server.edit = 200, None
        assert lake.ok("clean", address)["outcome"] == "nothing-to-do"
        assert lake.ok("optimize", address)["outcome"] == "committed"
        assert rows_of(lake.table()) == before
