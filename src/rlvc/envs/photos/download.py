"""Download photographs, and find those that are already on this computer.

Nothing is downloaded unless :func:`get` is called, which is what ``rlvc data get`` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import platformdirs

from rlvc.errors import DownloadError, ImageError, unknown_name

if TYPE_CHECKING:
    from requests import RequestException

COMMIT = "4396bb337d04980b2633ff98fb6dde83d74383bf"
SOURCE = f"https://raw.githubusercontent.com/mpetroff/pannellum.org/{COMMIT}/static/images"
TIMEOUT: Final = 30.0  # seconds without an answer
RETRIES: Final = 2  # of a transfer that fails
CHUNK: Final = 2**16  # bytes read at a time
TEMPORARY: Final = frozenset({408, 429, *range(500, 600)})  # HTTP status codes worth a retry


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on a server, with its size and its SHA-256."""

    name: str
    n_bytes: int
    sha256: str

    def has_size(self, path: Path) -> bool:
        """Return whether there is a file of the right size."""
        return path.is_file() and path.stat().st_size == self.n_bytes

    def is_right(self, path: Path) -> bool:
        """Return whether there is a file with the right bytes; this reads all of it."""
        return self.has_size(path) and sha256(path.read_bytes()).hexdigest() == self.sha256


@dataclass(frozen=True, slots=True)
class PictureSet:
    """Photographs that belong together in one folder."""

    name: str
    what: str
    files: tuple[RemoteFile, ...]
    credit: str = "Matthew Petroff"
    licence: str = "CC BY-SA 4.0"

    @property
    def n_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.n_bytes for file in self.files)


_PLACES = """
alma-correlator-facility 1393535 db6428f2e2362ad026fe4a535ee373413f55da25de94daa054a35323370b385e
alma 1615829 5941a424337394b98b0a133269a7cd7ad8040700a45ad4f6a278eefc4385b99e
bloomberg 2452676 3c0e23584ef003d18d74e00f596b6cef90653d665a941b112e866c042593979c
bma-0 2295287 385b0d9207807bf665cf3091306cd91c83319fd721016008110f0b3ec94ddf64
bma-1 1622361 a668adfec838758fc1be932f16f9b566483c9438ebeef37eb4a83f5e453b522d
cerro-toco-0 2241215 ec12ee09e1907c6cdaf3a52ac9dad8b34810343c57427926a0fd318b93d750c7
from-tree 3220006 de6eea9f0c2b8976d1db2989d3f2283ceab8ea8f4cca1a8bb1b226bf1a496a7e
jfk 1704869 2e66a5e54eee1af7fa1cf71ae80dd02aed2ba1e452ecc4fb57e76f60f324160e
lascar 1947093 b1ad29b0100cd28955306c9f2e3f5a740db264a751a87e7176beb30b7947b2ce
tocopilla 1392122 f1bd4e1f1b4fac8b28787bb455ee624db5084b3caf07b682fe8a6724806ee898
wyman-park-playground 2441375 0bec1fcc76da0e792a1f908fd8b7203d78de0c5b9235c1d5d03fff242dac45b7
"""
_STREET = """
charles-street 1346919 57b814db32062c53167c0919d2c9e99155b13e091fcde553181ff21c3e27365c
"""


def _files(table: str) -> tuple[RemoteFile, ...]:
    rows = (line.split() for line in table.split("\n") if line)
    return tuple(RemoteFile(f"{stem}.jpg", int(size), checksum) for stem, size, checksum in rows)


SETS = {
    "places": PictureSet("places", "11 full panoramas", _files(_PLACES)),
    "street": PictureSet("street", "a wide street view", _files(_STREET)),
}


def find_set(name: str) -> PictureSet:
    """Return a set by its name.

    >>> len(find_set("places").files)
    11
    """
    if name not in SETS:
        raise unknown_name("data set", name, SETS)
    return SETS[name]


def expand(path: str | os.PathLike[str]) -> Path:
    """Return a path with the user's home folder in place of ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ImageError(
            f"The home folder of {os.fspath(path)!r} is not known; give a path without ~."
        ) from None


def cache_folder() -> Path:
    """Return where downloads go: ``RLVC_CACHE``, or ``rlvc`` in the user's folder for caches."""
    if custom := os.environ.get("RLVC_CACHE"):
        return expand(custom)
    try:
        return platformdirs.user_cache_path("rlvc", appauthor=False)
    except RuntimeError:
        raise DownloadError("The home folder is not known; set RLVC_CACHE to a folder.") from None


def local_folder(name: str) -> Path | None:
    """Return the folder of a set in ``RLVC_DATA``, if it holds all files; these are not checked."""
    root = os.environ.get("RLVC_DATA")
    folder = expand(root or ".") / name
    is_complete = root and all((folder / file.name).is_file() for file in find_set(name).files)
    return folder.resolve() if is_complete else None


def cached_folder(name: str) -> Path | None:
    """Return the folder of a set in the cache, if it holds all files of the set."""
    folder = cache_folder() / name
    is_complete = all(file.has_size(folder / file.name) for file in find_set(name).files)
    return folder.resolve() if is_complete else None


def find_folder(name: str) -> Path:
    """Return the folder that holds all files of a set: in ``RLVC_DATA``, or downloaded.

    Raises:
        ValueError: The name is unknown.
        ImageError: The set is in neither place.
    """
    if folder := local_folder(name) or cached_folder(name):
        return folder
    root = os.environ.get("RLVC_DATA")
    fact = f"not all of it is in {Path(root) / name}" if root else "RLVC_DATA is not set"
    raise ImageError(
        f"Pictures {name!r} were not found: {fact}, and they are not downloaded. "
        f"Get them with: rlvc data get {name}; or set RLVC_DATA to a folder that holds {name}."
    )


def get(
    name: str,
    *,
    to: str | os.PathLike[str] | None = None,
    on_bytes: Callable[[int], object] = lambda done: None,
) -> Path:
    """Download the missing files of a set from ``RLVC_DATA_URL``, by default from their source.

    A file appears only when it is complete and its checksum is right, so that any number of
    processes may download at once. Returns the folder of the set.

    Args:
        name: The name of a set.
        to: The folder in which the folder of the set is created; by default the cache.
        on_bytes: Called with the number of bytes that are present, first before any transfer.

    Raises:
        ValueError: The name is unknown, or the address is not an HTTP address.
        DownloadError: Files could not be received or written.
    """
    chosen = find_set(name)
    address = (os.environ.get("RLVC_DATA_URL") or SOURCE).rstrip("/")
    if urlsplit(address).scheme not in {"http", "https"} or not address.isascii():
        raise ValueError(
            "The address of the data must begin with https:// or http:// and be plain ASCII; "
            f"got {address!r}. Check RLVC_DATA_URL."
        )
    root = cache_folder() if to is None else expand(to)
    folder = root / name
    try:
        missing = [file for file in chosen.files if not file.is_right(folder / file.name)]
        done = chosen.n_bytes - sum(file.n_bytes for file in missing)
        on_bytes(done)
        for file in missing:
            path = folder / file.name
            if to is None and not file.is_right(path):  # another process may have downloaded it
                path.unlink(missing_ok=True)  # no damaged file stays in the cache
            _fetch(file, f"{address}/{file.name}", folder, on_bytes, done)
            done += file.n_bytes
    except OSError as error:
        fact = getattr(error.__cause__, "strerror", None) or error.strerror or error
        raise DownloadError(
            f"Data set {name!r} cannot be written to {root}: {fact}. Free some space or get "
            "permission there, or name another folder with --to or RLVC_CACHE."
        ) from error
    return folder.resolve()


def _fetch(
    file: RemoteFile, url: str, folder: Path, on_bytes: Callable[[int], object], before: int
) -> None:
    """Download a file with pooch: to a temporary file, which is moved when it is right."""
    import pooch
    import requests

    mismatch = DownloadError(
        f"{url} did not send {file.name}: the size or the SHA-256 differs. Check that no login "
        "page or proxy answers instead, and RLVC_DATA_URL if it is set; then try again."
    )

    def download(url: str, path: str, _: object) -> None:
        Path(path).unlink()  # it is private; a new file has the usual permissions
        response = requests.get(url, stream=True, timeout=TIMEOUT)
        with response, Path(path).open("wb") as out:
            if not response.ok and response.status_code not in TEMPORARY:
                raise DownloadError(
                    f"{url} answered {response.status_code} {response.reason}. Check RLVC_DATA_URL "
                    "if it is set, or set RLVC_DATA to a folder that has the files."
                )
            response.raise_for_status()
            n_bytes = 0
            for chunk in response.iter_content(CHUNK):
                n_bytes += out.write(chunk)
                if n_bytes > file.n_bytes:
                    raise mismatch
                on_bytes(before + n_bytes)

    pooch.get_logger().setLevel("WARNING")  # by default, it prints each download
    registry, urls = {file.name: file.sha256}, {file.name: url}
    fetcher = pooch.create(folder, "", registry=registry, urls=urls, retry_if_failed=RETRIES)
    try:
        fetcher.fetch(file.name, downloader=download)
    except requests.RequestException as error:
        raise DownloadError(_explain(error, file, url)) from error
    except ValueError:
        raise mismatch from None


def _explain(error: RequestException, file: RemoteFile, url: str) -> str:
    """Return why a transfer failed after all retries, and what to do."""
    from requests.exceptions import ChunkedEncodingError

    if (response := error.response) is not None:
        return f"{url} answered {response.status_code} {response.reason}. Try again later."
    root: BaseException = error
    while cause := root.__cause__ or root.__context__:
        root = cause
    fact = getattr(root, "strerror", None) or str(root) or type(root).__name__
    if isinstance(root, TimeoutError):
        fact = f"no answer within {TIMEOUT:g} seconds"
    elif isinstance(error, ChunkedEncodingError):
        fact = "the connection was closed too early"
    return (
        f"{file.name} could not be received from {urlsplit(url).netloc}: {fact}. Check the network "
        "and try again. Without a network, set RLVC_DATA to a folder that has the files."
    )
