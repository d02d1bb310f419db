from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc.envs.photos import download
from rlvc.envs.photos.download import (
    SETS,
    PictureSet,
    RemoteFile,
    cache_folder,
    find_folder,
    find_set,
    get,
)
from rlvc.errors import DownloadError, ImageError

SIZES = {"a.jpg": 150_000, "b.jpg": 90_001, "c.jpg": 70}
CONTENT = {name: np.random.default_rng(n).bytes(n) for name, n in SIZES.items()}
FILES = [RemoteFile(n, len(data), sha256(data).hexdigest()) for n, data in CONTENT.items()]
SMALL = PictureSet("small", "a test", tuple(FILES), credit="Ann Onymous", licence="CC0")
HALF = 60_000


class Server(ThreadingHTTPServer):
    """A server of the small set that can be told to misbehave."""

    daemon_threads = True
    mode = "good"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.n_failures = 0  # of the next requests
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients hang up here on purpose


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        name, mode = self.path.removeprefix("/"), self.server.mode
        self.server.asked.append(name)
        if mode == "silent":
            self.server.over.wait(5)
            return
        if self.server.n_failures:
            self.server.n_failures, mode = self.server.n_failures - 1, "500"
        if mode in {"404", "429", "500"}:
            self.send_error(int(mode))
            return
        data = CONTENT[name]
        if mode == "wrong":
            data = bytes(len(data))
        elif mode == "login":
            data = b"<html>Please log in</html>"
        self.send_response(200)
        if mode in {"chunked-short", "endless"}:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            piece = b"%x\r\n%s\r\n" % (10_000, bytes(10_000))
            self.wfile.write(piece)
            while mode == "endless":  # the client hangs up
                self.wfile.write(piece)
            return
        if mode != "lengthless-short":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        is_cut = mode in {"short", "lengthless-short", "stalls"}
        self.wfile.write(data[: min(HALF, len(data) // 2)] if is_cut else data)
        if mode == "stalls":
            self.wfile.flush()
            self.server.over.wait(5)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve the set ``small``, with an empty cache and no other data."""
    monkeypatch.setitem(SETS, "small", SMALL)
    monkeypatch.delenv("RLVC_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("RLVC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "RETRIES", 0)
    with Server() as server:
        monkeypatch.setenv("RLVC_DATA_URL", f"{server.url}/")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def assert_recovers(server: Server) -> None:
    """Check that after a failure nothing is half there, and that a good run mends all."""
    cache = cache_folder()
    found = contents(cache / "small")
    assert found == {name: CONTENT[name] for name in found}
    with pytest.raises(ImageError, match="rlvc data get small"):
        find_folder("small")
    server.mode = "good"
    assert get("small") == cache / "small"
    assert contents(cache / "small") == CONTENT
    assert find_folder("small") == cache / "small"


def test_the_table_names_the_source() -> None:
    assert {name: len(found.files) for name, found in SETS.items()} == {"places": 11, "street": 1}
    assert SETS["places"].n_bytes == 22_326_368
    for found in SETS.values():
        assert (found.credit, found.licence) == ("Matthew Petroff", "CC BY-SA 4.0")
        for file in found.files:
            assert re.fullmatch(r"[a-z0-9-]+\.jpg", file.name)
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert download.SOURCE.startswith("https://raw.githubusercontent.com/mpetroff/pannellum.org/4")


def test_a_set_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    seen: list[int] = []
    folder = get("small", on_bytes=seen.append)
    assert folder == tmp_path / "cache" / "small" == find_folder("small")
    assert contents(folder) == CONTENT
    assert list(folder.parent.iterdir()) == [folder]
    (tmp_path / "any").touch()
    assert (folder / "a.jpg").stat().st_mode == (tmp_path / "any").stat().st_mode
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, SMALL.n_bytes)
    assert server.asked == list(CONTENT)
    assert get("small", on_bytes=seen.append) == folder
    assert seen[-1] == SMALL.n_bytes
    assert len(server.asked) == len(CONTENT)


@pytest.mark.parametrize("address", ["ftp://x.org", "file:///etc", "x.org/images", "http://é.org"])
def test_an_address_that_is_none(
    server: Server, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RLVC_DATA_URL", address)
    with pytest.raises(ValueError, match=rf"must begin with https://.*{address}.*RLVC_DATA_URL"):
        get("small")


def test_a_name_that_is_not_known() -> None:
    for ask in (get, find_folder, find_set):
        with pytest.raises(ValueError, match=r"Unknown data set 'place'\. Did you mean 'places'\?"):
            ask("place")


MISMATCH = r"a\.jpg did not send a\.jpg: the size or the SHA-256 differs\. Check"
NO_ANSWER = r"a\.jpg could not be received .*: no answer within 0\.2 seconds\. Check the network"
CUT = r"a\.jpg could not be received from 127.*: the connection was closed too early\. Check"
FAILURES = {
    "404": r"a\.jpg answered 404 Not Found\. Check RLVC_DATA_URL",
    "429": r"a\.jpg answered 429 .*\. Try again later\.$",
    "500": r"a\.jpg answered 500 .*\. Try again later\.$",
    "wrong": MISMATCH, "login": MISMATCH, "endless": MISMATCH, "lengthless-short": MISMATCH,
    "short": CUT, "chunked-short": CUT, "silent": NO_ANSWER, "stalls": NO_ANSWER,
}  # fmt: skip


@pytest.mark.parametrize(("mode", "message"), FAILURES.items(), ids=list(FAILURES))
def test_a_failure_leaves_nothing_half(
    server: Server, tmp_path: Path, mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.mode = mode
    with monkeypatch.context() as patch:
        patch.setattr(download, "TIMEOUT", 0.2)
        with pytest.raises(DownloadError, match=message) as failure:
            get("small")
    assert "\n" not in str(failure.value)
    assert contents(tmp_path / "cache" / "small") == {}
    assert_recovers(server)


def test_temporary_failures_are_retried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "RETRIES", 2)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    for mode, n_requests in {"404": 1, "endless": 1, "429": 3, "wrong": 3, "short": 3}.items():
        server.mode, server.asked = mode, []
        with pytest.raises(DownloadError):
            get("small")
        assert server.asked == ["a.jpg"] * n_requests
    server.mode, server.asked, server.n_failures = "good", [], 2
    assert contents(get("small")) == CONTENT
    assert server.asked == ["a.jpg", "a.jpg", *CONTENT]


@pytest.mark.parametrize("damage", [b"", CONTENT["a.jpg"][:-1], bytes(SIZES["a.jpg"])])
def test_a_damaged_file_is_fetched_again(server: Server, damage: bytes) -> None:
    folder = get("small")
    server.asked = []
    (folder / "a.jpg").write_bytes(damage)
    server.mode = "500"
    with pytest.raises(DownloadError):
        get("small")
    assert not (folder / "a.jpg").exists()
    server.mode = "good"
    get("small")
    assert contents(folder) == CONTENT
    assert set(server.asked) == {"a.jpg"}


def test_nobody_listens(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with monkeypatch.context() as patch:
        patch.setenv("RLVC_DATA_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(DownloadError, match=f"1:{port}: Connection refused.* RLVC_DATA "):
            get("small")
    assert_recovers(server)


def test_no_name_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", fail)
        patch.setenv("RLVC_DATA_URL", "https://x.org")
        with pytest.raises(DownloadError, match=r"x\.org: Name or service not known\. Check the"):
            get("small")
    assert_recovers(server)


def test_a_full_disk(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.move", fail)
        with pytest.raises(DownloadError, match=r"cache: No space left on device\. Free some"):
            get("small")
    assert_recovers(server)


def test_a_folder_that_cannot_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"file: .*\. Free some space .* --to or RLVC_CACHE\.$"):
        get("small", to=tmp_path / "file")
    (tmp_path / "cache" / "small" / "b.jpg").mkdir(parents=True)
    with pytest.raises(DownloadError, match=r"cache: .*\. Free some space"):
        get("small")
    (tmp_path / "cache" / "small" / "b.jpg").rmdir()
    assert_recovers(server)


def test_an_interruption_leaves_nothing_half(server: Server, tmp_path: Path) -> None:
    def stop(n_bytes: int) -> None:
        if n_bytes > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get("small", on_bytes=stop)
    assert contents(tmp_path / "cache" / "small") == {}
    assert_recovers(server)


def test_many_at_once(server: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: get("small"), range(16)))
    assert [contents(folder) for folder in folders] == [CONTENT]


def test_another_folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own" / "small" / "a.jpg"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"of the user's")
    server.mode = "short"
    with pytest.raises(DownloadError):
        get("small", to=tmp_path / "own")
    assert own.read_bytes() == b"of the user's"
    server.mode = "good"
    assert get("small", to=tmp_path / "own") == tmp_path / "own" / "small"
    assert contents(tmp_path / "own" / "small") == CONTENT
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["small"]
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("RLVC_DATA", str(tmp_path / "own"))
    assert find_folder("small") == tmp_path / "own" / "small"


def test_local_data_comes_first_if_it_is_all_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImageError, match=r"'small' were not found: RLVC_DATA is not set, and"):
        find_folder("small")
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    (tmp_path / "small").mkdir()
    for name in list(CONTENT)[1:]:
        (tmp_path / "small" / name).write_bytes(b"of the user's")
    with pytest.raises(ImageError, match=r"not all of it is in .*small, .*rlvc data get small"):
        find_folder("small")
    cached = get("small")
    assert find_folder("small") == cached
    (tmp_path / "small" / "a.jpg").write_bytes(b"of the user's")
    assert find_folder("small") == tmp_path / "small"


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no variable of the environment tell where the cache is."""
    for name in ("RLVC_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_folder")
@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RLVC_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/rlvc"),
        ({"HOME": "/c"}, "/c/.cache/rlvc"),
        ({"RLVC_CACHE": "~/d", "HOME": "/c"}, "/c/d"),
    ],
)
def test_where_the_cache_is(
    environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


@pytest.mark.usefixtures("no_folder")
def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(DownloadError, match="home folder is not known; set RLVC_CACHE"):
        cache_folder()
