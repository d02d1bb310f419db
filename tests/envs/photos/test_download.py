from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc.envs.photos import download
from rlvc.envs.photos.download import SETS, PictureSet, cache_folder, find_folder, find_set, get
from rlvc.envs.photos.transfer import ABANDONED, File
from rlvc.errors import DownloadError, ImageError

SIZES = {"a.jpg": 150_000, "b.jpg": 90_001, "c.jpg": 70}
CONTENT = {name: np.random.default_rng(n).bytes(n) for name, n in SIZES.items()}
SMALL = PictureSet(
    "small",
    "a test",
    tuple(
        File(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items()
    ),
    credit="Ann Onymous",
    licence="CC0",
)
HALF = 60_000


class Server(ThreadingHTTPServer):
    """A server of the small set that can be told to misbehave."""

    daemon_threads = True
    mode = "good"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
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
        self.server.asked.append((name, self.headers["Range"]))
        if mode == "silent":
            self.server.over.wait(5)
            return
        if mode in {"404", "429", "500"}:
            self.send_error(int(mode))
            return
        data = CONTENT[name]
        if mode == "wrong":
            data = bytes(len(data))
        elif mode == "login":
            data = b"<html>Please log in</html>"
        elif mode == "endless":
            data = data + bytes(500_000)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        start = int(wanted[1]) if wanted and mode != "ignores-range" else 0
        if start >= len(data):
            self.send_error(416)
            return
        body = data[1:] + b"x" if start and mode == "shifts-range" else data[start:]
        self.send_response(206 if start else 200)
        if mode in {"chunked-short", "endless"}:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 10_000):
                if mode == "chunked-short" and at >= HALF:
                    return
                piece = body[at : at + 10_000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        if mode != "lengthless-short":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        is_cut = mode in {"short", "lengthless-short", "stalls"}
        self.wfile.write(body[: min(HALF, len(body) // 2)] if is_cut else body)
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
    with Server() as server:
        monkeypatch.setenv("RLVC_DATA_URL", server.url)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def assert_whole(cache: Path) -> None:
    """Check that what is in the folder of the set is right, whatever is missing."""
    found = contents(cache / "small")
    assert found == {name: CONTENT[name] for name in found}


def assert_recovers(server: Server, cache: Path) -> None:
    """Check that after a failure nothing is half there, and that a good run mends all."""
    assert_whole(cache)
    with pytest.raises(ImageError, match="rlvc data get small"):
        find_folder("small")
    server.mode = "good"
    assert get("small") == cache / "small"
    assert contents(cache / "small") == CONTENT
    assert contents(cache / "partial") == {}
    assert find_folder("small") == cache / "small"


def keep(cache: Path, data: bytes, name: str = "a.jpg") -> Path:
    """Leave a partial file behind, as an interrupted run does."""
    path = cache / "partial" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


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
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, SMALL.n_bytes)
    assert server.asked == [(name, None) for name in CONTENT]
    assert get("small", on_bytes=seen.append) == folder
    assert seen[-1] == SMALL.n_bytes
    assert len(server.asked) == len(CONTENT)


def test_an_address_can_be_given(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVC_DATA_URL", "http://127.0.0.1:9")
    assert contents(get("small", base_url=server.url + "/")) == CONTENT


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


FAILURES = {
    "404": r"a\.jpg answers 404 Not Found\. Check RLVC_DATA_URL",
    "429": r"a\.jpg answers 429 .*\. Wait a little; run it again",
    "500": r"a\.jpg answers 500 .*\. Wait a little; run it again and it goes on",
    "wrong": r"a\.jpg sends is not a\.jpg: its size or SHA-256 differs\. Check",
    "login": r"a\.jpg sends is not a\.jpg: its size or SHA-256 differs\. Check",
    "short": r"ended after [\d,]+ of the 150,000 bytes of a\.jpg; run it again and it goes on",
    "lengthless-short": r"ended after [\d,]+ of the 150,000 bytes of a\.jpg; run it again",
    "chunked-short": r"a\.jpg could not be received from 127.*IncompleteRead.*run it again",
    "silent": r"a\.jpg could not be received .*: no answer within 0\.2 seconds\. Check the network",
    "stalls": r"a\.jpg could not be received .*: no answer within 0\.2 seconds\. Check the network",
}
KEPT = {
    "nothing": b"",
    "a part": CONTENT["a.jpg"][:1000],
    "another's": bytes(1000),
    "too much": CONTENT["a.jpg"] + b"more",
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=list(KEPT))
@pytest.mark.parametrize(("mode", "message"), FAILURES.items(), ids=list(FAILURES))
def test_a_failure_leaves_nothing_half(
    server: Server, tmp_path: Path, mode: str, message: str, kept: bytes
) -> None:
    keep(tmp_path / "cache", kept)
    server.mode = mode
    with pytest.raises(DownloadError, match=message) as failure:
        get("small", timeout=0.2)
    assert "\n" not in str(failure.value)
    assert_recovers(server, tmp_path / "cache")


@pytest.mark.parametrize("mode", ["wrong", "login", "404", "silent"])
def test_nothing_useless_is_kept(server: Server, tmp_path: Path, mode: str) -> None:
    server.mode = mode
    with pytest.raises(DownloadError):
        get("small", timeout=0.2)
    assert contents(tmp_path / "cache" / "partial") == {}


@pytest.mark.parametrize("mode", ["short", "stalls", "lengthless-short", "chunked-short"])
def test_what_was_received_is_not_asked_for_again(
    server: Server, tmp_path: Path, mode: str
) -> None:
    server.mode = mode
    with pytest.raises(DownloadError):
        get("small", timeout=0.2)
    kept = contents(tmp_path / "cache" / "partial")
    n = len(kept["a.jpg"])
    assert 0 < n <= HALF
    assert kept == {"a.jpg": CONTENT["a.jpg"][:n]}
    server.mode, server.asked = "good", []
    seen: list[int] = []
    assert contents(get("small", on_bytes=seen.append)) == CONTENT
    assert server.asked[0] == ("a.jpg", f"bytes={n}-")
    assert seen[0] == 0
    assert seen[1] > n


@pytest.mark.parametrize(
    ("mode", "kept", "asked"),
    [
        ("ignores-range", "a part", ["bytes=1000-"]),
        ("ignores-range", "another's", ["bytes=1000-"]),
        ("shifts-range", "a part", ["bytes=1000-", None]),
        ("good", "another's", ["bytes=1000-", None]),
        ("good", "too much", [None]),
    ],
)
def test_a_part_of_no_use_is_begun_anew(
    server: Server, tmp_path: Path, mode: str, kept: str, asked: list[str | None]
) -> None:
    keep(tmp_path / "cache", KEPT[kept])
    server.mode = mode
    assert contents(get("small")) == CONTENT
    assert [wanted for name, wanted in server.asked if name == "a.jpg"] == asked


def test_nothing_is_read_beyond_the_end(server: Server) -> None:
    server.mode = "endless"
    assert contents(get("small")) == CONTENT


def test_a_part_that_is_all_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    keep(tmp_path / "cache", CONTENT["a.jpg"])
    assert contents(get("small")) == CONTENT
    assert [name for name, _ in server.asked] == ["b.jpg", "c.jpg"]


def test_a_server_that_has_less_than_the_part(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path / "cache", bytes(1000))
    monkeypatch.setitem(CONTENT, "a.jpg", CONTENT["a.jpg"][:900])
    with pytest.raises(DownloadError, match=r"is not a\.jpg"):
        get("small")
    assert [wanted for _, wanted in server.asked] == ["bytes=1000-", None]


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
    assert {name for name, _ in server.asked} == {"a.jpg"}


def test_nobody_listens(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DownloadError, match=f"127.0.0.1:{port}: Connection refused.* RLVC_DATA "):
        get("small", base_url=f"http://127.0.0.1:{port}")
    assert_recovers(server, tmp_path / "cache")


def test_no_name_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", fail)
        with pytest.raises(DownloadError, match=r"x\.org: Name or service not known\. Check the"):
            get("small", base_url="https://x.org")
    assert_recovers(server, tmp_path / "cache")


def test_a_full_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(DownloadError, match=r"cache: No space left on device\. Make room"):
            get("small")
    assert_recovers(server, tmp_path / "cache")


def test_a_folder_that_cannot_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"file: .*\. Make room .* --to or RLVC_CACHE\.$"):
        get("small", to=tmp_path / "file")
    (tmp_path / "cache" / "small" / "b.jpg").mkdir(parents=True)
    with pytest.raises(DownloadError, match=r"cache: .*\. Make room"):
        get("small")
    (tmp_path / "cache" / "small" / "b.jpg").rmdir()
    assert_recovers(server, tmp_path / "cache")


def test_an_interruption_keeps_what_came(server: Server, tmp_path: Path) -> None:
    def stop(n_bytes: int) -> None:
        if n_bytes > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get("small", on_bytes=stop)
    kept = contents(tmp_path / "cache" / "partial")
    assert list(kept) == ["a.jpg"]
    assert CONTENT["a.jpg"].startswith(kept["a.jpg"])
    assert_recovers(server, tmp_path / "cache")


def test_what_a_killed_process_left_is_taken_over(server: Server, tmp_path: Path) -> None:
    left = keep(tmp_path / "cache", CONTENT["a.jpg"][:1000], "a.jpg.dead")
    os.utime(left, (0, time.time() - ABANDONED - 1))
    working = keep(tmp_path / "cache", CONTENT["b.jpg"][:1000], "b.jpg.alive")
    assert contents(get("small")) == CONTENT
    assert server.asked[:2] == [("a.jpg", "bytes=1000-"), ("b.jpg", None)]
    assert list((tmp_path / "cache" / "partial").iterdir()) == [working]


@pytest.mark.parametrize("mode", ["good", "ignores-range", "shifts-range"])
def test_many_at_once(server: Server, tmp_path: Path, mode: str) -> None:
    keep(tmp_path / "cache", CONTENT["a.jpg"][:1000])
    server.mode = mode
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: get("small"), range(16)))
    assert [contents(folder) for folder in folders] == [CONTENT]
    assert contents(tmp_path / "cache" / "partial") == {}


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
    with pytest.raises(ImageError, match=r"'small' are not here: RLVC_DATA is not set, and"):
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
    for name in ("RLVC_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("RLVC_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", fail)
    with pytest.raises(DownloadError, match="home folder is not known; set RLVC_CACHE"):
        cache_folder()
