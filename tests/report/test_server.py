from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvc.report import Server, render
from rlvc.report.server import HEADERS
from rlvc.report.web import RunPage


class Shown:
    """Something to show."""

    def __init__(self) -> None:
        self.large = b'{"data": 1}'
        self.error: Exception | None = None

    def page(self) -> bytes:
        return "<p>ä</p>".encode()

    def data(self) -> bytes:
        if self.error:
            raise self.error
        return self.large

    def version(self) -> tuple[int, bool]:
        return 7, True


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def server(shown: Shown) -> Iterator[Server]:
    with Server(shown) as server:
        yield server


Answer = tuple[int, dict[str, str], bytes]


def port_of(server: Server) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


def ask(server: Server, path: str = "/", method: str = "GET", host: str | None = "") -> Answer:
    """Return the answer to a request; a host of None sends none at all."""
    port = port_of(server)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host is not None:
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    found = connection.getresponse()
    answer = found.status, dict(found.getheaders()), found.read()
    connection.close()
    return answer


# The server --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/", "<p>ä</p>".encode(), "text/html; charset=utf-8"),
        ("/data", b'{"data": 1}', "application/json; charset=utf-8"),
        ("/version", b'{"version": 7, "finished": true}', "application/json; charset=utf-8"),
    ],
)
def test_three_things_are_served(server: Server, path: str, body: bytes, kind: str) -> None:
    status, headers, found = ask(server, path)
    assert (status, found) == (200, body)
    assert headers["Content-Type"] == kind
    assert headers["Content-Length"] == str(len(body))
    assert headers.items() >= HEADERS.items()
    assert headers["Server"].strip() == "rlvc"  # and no version of Python
    assert "Access-Control-Allow-Origin" not in headers
    status, only, found = ask(server, path, "HEAD")
    assert (status, found) == (200, b"")
    del headers["Date"], only["Date"]
    assert only == headers


@pytest.mark.parametrize(
    "path",
    ["/data/", "/index.html", "/../data", "/live.json", "/%2e%2e/", "/?x", "/?theme=",
     "/data?theme=dark", "/data#", "*", "http://127.0.0.1/", "/etc/passwd", "/.", "/DATA"],
)  # fmt: skip
def test_nothing_else_is(server: Server, path: str) -> None:
    status, headers, body = ask(server, path)
    assert (status, body) == (404, b"404 Not Found\n")
    assert headers.items() >= HEADERS.items()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"])
def test_one_can_only_look(server: Server, method: str) -> None:
    status, headers, _ = ask(server, "/data", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert headers.items() >= HEADERS.items()


@pytest.mark.parametrize("path", ["/", "/data", "/version", "/nowhere"])
def test_only_this_machine_may_ask_and_by_its_own_name(server: Server, path: str) -> None:
    port = port_of(server)
    for name in ("localhost", "127.0.0.1"):
        assert ask(server, path, host=f"{name}:{port}")[0] in (200, 404)
    for host in (
        None, "evil.example", f"evil.example:{port}", "localhost", "127.0.0.1",
        f"127.0.0.1:{port + 1}", f"localhost.evil.example:{port}", f"127.0.0.1:{port}.evil",
    ):  # fmt: skip
        status, _, body = ask(server, path, host=host)
        assert (status, body) == (403, b"403 Forbidden\n"), host
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        two = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n"
        client.sendall(two.encode())
        assert client.recv(100).startswith(b"HTTP/1.0 403 ")


def test_it_is_not_reached_from_elsewhere(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{port_of(server)}/"
    with pytest.raises(OSError, match=r"refused|unreachable|assign"):
        socket.create_connection(("127.0.0.2", port_of(server)), 10).close()


@pytest.mark.parametrize("request_", [b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n", b""])
def test_what_is_no_request_does_no_harm(
    server: Server, request_: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", port_of(server)), 10) as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        client.recv(100)
    assert ask(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_browser_that_goes_away_is_no_error(
    shown: Shown, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    shown.large = bytes(50_000_000)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port_of(server)), 10) as client:
            client.sendall(f"GET /data HTTP/1.1\r\nHost: {server.url[7:-1]}\r\n\r\n".encode())
            client.recv(10)
    assert ask(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_shown_is_said(
    shown: Shown, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    shown.error = ValueError("The policy is gone.")
    with caplog.at_level(logging.WARNING):
        status, headers, body = ask(server, "/data")
    assert (status, body) == (500, b"The policy is gone.")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert caplog.messages == ["The page cannot be shown now: The policy is gone."]
    assert ask(server, "/version")[0] == 200


def test_a_port_that_is_taken_is_named(server: Server, shown: Shown) -> None:
    port = port_of(server)
    with pytest.raises(
        OSError,
        match=rf"^Port {port} cannot be used \(.*\); give another one with --port, or none for one",
    ):
        Server(shown, port)


def test_the_port_is_free_again_afterwards(shown: Shown) -> None:
    with Server(shown) as first:
        assert ask(first)[0] == 200
        port = port_of(first)
    with Server(shown, port) as second:
        assert ask(second)[0] == 200
        assert second.url == first.url


# A folder to watch -------------------------------------------------------------------------------


class PageBuilder:
    """Describe a folder by the names and contents of its files, and count how often."""

    def __init__(self) -> None:
        self.n = 0
        self.seconds = 0.0
        self.failing: list[Exception] = []

    def describe(self, folder: Path) -> dict[str, Any]:
        self.n += 1
        time.sleep(self.seconds)
        if self.failing:
            (folder / "live.rlvc").write_text(str(self.n))
            raise self.failing.pop()
        return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets."""
    time = [0.0]
    monkeypatch.setattr("rlvc.report.web.watch.monotonic", lambda: time[0])
    return time


def put(folder: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = folder / name.replace("_", ".")
        path.with_suffix(".new").write_text(content)
        path.with_suffix(".new").replace(path)


@pytest.mark.usefixtures("now")
def test_a_run_is_watched_from_before_its_beginning_to_its_end(tmp_path: Path) -> None:
    author = PageBuilder()
    run = RunPage(tmp_path, author.describe)
    assert run.page() == render(None).encode()
    first, is_over = run.version()
    assert not is_over
    assert not run.is_begun
    assert json.loads(run.data()) == {
        "format": "rlvc-report", "version": 1, "title": tmp_path.name,
        "live": {"phase": "waiting", "stage": None},
    }  # fmt: skip
    put(tmp_path, live_rlvc="0", live_json="0")
    second, is_over = run.version()
    assert (second > first, is_over) == (True, False)
    assert author.n == 0  # nobody has asked
    assert json.loads(run.data()) == {"live.json": "0", "live.rlvc": "0"}
    assert run.version() == (second, False)
    assert json.loads(run.data()) == {"live.json": "0", "live.rlvc": "0"}
    assert author.n == 1
    (tmp_path / "percept.png").write_text("other")
    assert run.version() == (second, False)
    put(tmp_path, live_json="1")
    third, is_over = run.version()
    assert (third > second, is_over) == (True, False)
    put(tmp_path, policy_rlvc="p", result_json="r")
    fourth, is_over = run.version()
    assert (fourth > third, is_over) == (True, True)
    for name in ("live.json", "live.rlvc", "percept.png"):
        (tmp_path / name).unlink()
    assert run.version() == (fourth, True)
    assert json.loads(run.data()) == {"policy.rlvc": "p", "result.json": "r"}
    assert author.n == 2


@pytest.mark.usefixtures("now")
def test_what_an_earlier_run_left_is_not_shown_in_its_stead(tmp_path: Path) -> None:
    put(tmp_path, policy_rlvc="old", result_json="old")
    run = RunPage(tmp_path, PageBuilder().describe, is_new=True)
    first, is_over = run.version()
    assert not is_over
    assert json.loads(run.data())["live"]["phase"] == "waiting"
    (tmp_path / "result.json").unlink()
    put(tmp_path, live_rlvc="0", live_json="0")
    second, is_over = run.version()
    assert (second > first, is_over) == (True, False)
    assert json.loads(run.data())["live.json"] == "0"
    put(tmp_path, result_json="old")
    assert run.version()[1]
    assert RunPage(tmp_path, PageBuilder().describe).version()[1]


def test_data_that_take_long_are_made_seldom(
    tmp_path: Path, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(folder: Path) -> dict[str, Any]:
        before = run.version()
        put(folder, live_json="now")
        now[0] += 2.0
        assert run.version() == before  # nothing is new before this is shown
        return {}

    run = RunPage(tmp_path, describe)
    monkeypatch.setattr("rlvc.report.web.watch.SHARE", 0.25)
    put(tmp_path, live_json="0")
    run.data()
    first, _ = run.version()
    put(tmp_path, live_json="1")
    now[0] += 1.9
    assert run.version() == (first, False)
    now[0] += 0.2
    assert run.version() > (first, False)
    monkeypatch.setattr("rlvc.report.web.watch.SHARE", 0.001)
    run.data()
    second, _ = run.version()
    put(tmp_path, live_json="2")
    assert run.version() == (second, False)
    now[0] += 2.1
    assert run.version() > (second, False)
    run.data()
    put(tmp_path, result_json="r")  # the end is shown at once
    assert run.version()[1]
    assert run.version()[0] > first


def test_files_may_change_while_they_are_read(tmp_path: Path) -> None:
    put(tmp_path, live_json="0")
    author = PageBuilder()
    author.failing = [FileNotFoundError(), KeyError()]
    assert "live.rlvc" in json.loads(RunPage(tmp_path, author.describe).data())
    assert author.n == 3

    def fail(folder: Path) -> dict[str, Any]:
        raise ValueError("damaged")

    author.describe = fail  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="damaged"):
        RunPage(tmp_path, author.describe).data()


def test_the_same_data_are_made_once_however_many_ask(tmp_path: Path) -> None:
    put(tmp_path, live_json="0")
    author = PageBuilder()
    author.seconds = 0.05
    run, found = RunPage(tmp_path, author.describe), list[bytes]()
    threads = [threading.Thread(target=lambda: found.append(run.data())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert author.n == 1
    assert found == [b'{"live.json":"0"}'] * 8
