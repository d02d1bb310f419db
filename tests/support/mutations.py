"""Mutations of files, for tests and for ``benchmarks/fuzz.py``.

A file is broken byte by byte; or it is split, its manifest, its arrays or its header are changed,
and it is joined again with the right checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from rlvc._core.archive import pack
from rlvc.errors import InvalidFileError

T = TypeVar("T")
Header = dict[str, Any]  # of safetensors
Arrays = dict[str, NDArray[Any]]

INTS = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, -(2**63), 2**64)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e-9, 1e9, 1e100, 1e308, -1e308)
ODD = (float("nan"), float("inf"), -float("inf"))
DTYPES = ("?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8")
CODES = ("BOOL", "U8", "I16", "F16", "BF16", "F32", "C64", "F64", "I64", "F8_E4M3", "F4", "O", "")
NAMES = ("", "name", "harris", "sift", "orb", "invariants", "euclidean", "mahalanobis", "hamming",
         "tree", "diagrams", "rootsift", "frame 2", "front", "é" * 9)  # fmt: skip


@dataclass(frozen=True)
class Mutator:
    """Break files of one kind, the same ones for the same seed.

    Attributes:
        files: Intact files of one kind.
        others: Intact files of other kinds.
    """

    files: list[bytes]
    others: list[bytes]

    def mutate(self, seed: int) -> bytes:
        """Return the file of a number."""
        rng = np.random.default_rng(seed)
        data, other = self.files[rng.integers(len(self.files))], self._any(rng)
        draw = rng.random()
        if draw < 0.14:
            return break_bytes(rng, data, other)
        if draw < 0.28:
            return break_header(rng, data)
        text, arrays = take_apart(data)
        for _ in range(rng.geometric(0.7)):
            draw = rng.random()
            if draw < 0.5:
                text = change_manifest(rng, text)
            elif draw < 0.85 and arrays:
                name = list(arrays)[rng.integers(len(arrays))]
                arrays[name] = change_array(rng, arrays[name])
            else:
                arrays = change_names(rng, arrays, other)
        return pack(text, arrays)

    def _any(self, rng: np.random.Generator) -> bytes:
        pool = self.others if self.others and rng.random() < 0.3 else self.files
        return pool[rng.integers(len(pool))]


# Whole files -------------------------------------------------------------------------------------


def take_apart(data: bytes) -> tuple[str, Arrays]:
    """Return the manifest of an intact file as JSON, and its arrays; `pack` joins them again."""
    header, _ = split(data)
    manifest = json.loads(header["__metadata__"]["rlvc"])
    del manifest["sha256"]
    return json.dumps(manifest, ensure_ascii=False, separators=(",", ":")), load(data)


def loader(load: Callable[[Path], T]) -> Callable[[bytes, Path], T | None]:
    """Return a function that loads bytes, or returns None if they are refused as they should be."""

    def loads(data: bytes, path: Path) -> T | None:
        path.write_bytes(data)
        try:
            return load(path)
        except InvalidFileError:
            return None

    return loads


def forge(
    data: bytes, change: Mapping[str, Any], arrays: Arrays, missing: str = "", forget: str = ""
) -> bytes:
    """Return a file whose checksum is right but whose content is not."""
    text, known = take_apart(data)
    manifest = {**json.loads(text), **change}
    manifest.pop(forget, None)
    known.pop(missing, None)
    return pack(json.dumps(manifest), {**known, **arrays})


def split(data: bytes) -> tuple[Header, bytes]:
    """Return the header of a safetensors file, and the bytes of its arrays."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def frame(header: Header, data: bytes) -> bytes:
    """Return a safetensors file of any header and any bytes."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode(
        errors="surrogatepass"
    )
    return len(text).to_bytes(8, "little") + text + data


def join(manifest: Mapping[str, Any], tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """Return a file of tensors of any type, with the checksum that it would have with these."""
    text, header, all_bytes = json.dumps(manifest), Header(), b""
    digest = hashlib.sha256(text.encode())
    names = {"F64": "float64", "BOOL": "bool"}
    for name, (dtype, shape, data) in tensors.items():
        begin, all_bytes = len(all_bytes), all_bytes + data
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(all_bytes)]}
        digest.update(f"\n{name} {names.get(dtype)} {tuple(shape)}\n".encode() + data)
    metadata = {"rlvc": f'{{"sha256":"{digest.hexdigest()}",{text[1:]}'}
    return frame({"__metadata__": metadata, **header}, all_bytes)


def break_bytes(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """Change, leave out, repeat or mix in some bytes."""
    data = bytes(data)
    begin, end = np.sort(rng.integers(0, len(data) + 1, 2)).tolist()
    short = min(end, begin + int(rng.geometric(0.1)))
    what = rng.integers(8)
    if what == 0:
        return data[:begin]
    if what == 1:
        return data[:begin] + data[short:]
    if what == 2:
        return data[:short] + data[begin:]
    if what == 3:
        return data[:begin] + rng.bytes(int(rng.integers(1, 20))) + data[begin:]
    if what == 4:
        at = int(rng.integers(0, len(other) + 1))
        return data[:begin] + other[at:]
    if what == 5:
        return data[:begin] + other[begin:end] + data[end:]
    changed = bytearray(data)
    for place in rng.integers(0, len(data), int(rng.integers(1, 9))).tolist():
        odd = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
        changed[place] = changed[place] ^ 1 << int(rng.integers(8)) if what == 6 else odd
    return bytes(changed)


def break_header(rng: np.random.Generator, data: bytes) -> bytes:
    """Change what the header of safetensors says of an array, or its length."""
    header, rest = split(data)
    names = [name for name in header if name != "__metadata__"]
    for name in rng.choice(names, int(rng.integers(1, 3))).tolist() if names else []:
        entry = header[name]
        what = rng.integers(4)
        if what == 0:
            header[name] = {**entry, "dtype": CODES[rng.integers(len(CODES))]}
        elif what == 1:
            header[name] = {**entry, "shape": _change_value(rng, entry["shape"], entry)}
        elif what == 2:
            header[name] = {**entry, "data_offsets": _change_value(rng, [0, 8], entry)}
        else:
            header = _change_value(rng, header, header)
            break
    changed = frame(header, rest) if isinstance(header, dict) else data
    if not names or rng.random() < 0.2:
        length = int(rng.choice([0, 1, 8, 2**20, 2**25, 2**25 + 1, 2**31, 2**62]))
        changed = length.to_bytes(8, "little") + changed[8:]
    return changed


# The manifest ------------------------------------------------------------------------------------


def change_manifest(rng: np.random.Generator, text: str) -> str:
    """Change a manifest somewhere, or its text."""
    what = rng.random()
    if what < 0.08:
        broken = break_bytes(rng, text.encode(), b'[{"\\u' * 9).decode(errors="replace")
        return "{" + broken[1:]
    if what < 0.12:
        deep = int(rng.choice([5, 31, 32, 33, 1000, 100_000]))
        return f'{text[:-1]}, "deep": {"[" * deep}{"]" * deep}}}'
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):  # an earlier change
        return text
    changed = _change_value(rng, manifest, manifest)
    return json.dumps(changed if isinstance(changed, dict) else {"x": changed})


def _change_value(rng: np.random.Generator, value: Any, whole: Any) -> Any:
    """Return a value with one change somewhere in it; lists and objects are mostly gone into."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        keys = list(value)
        key = keys[rng.integers(len(keys))]
        draw = rng.random()
        if draw < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if draw < 0.13:
            return {**value, str(rng.choice(NAMES)): value[key]}
        return {**value, key: _change_value(rng, value[key], whole)}
    if isinstance(value, list) and value and rng.random() < 0.93:
        at = int(rng.integers(len(value)))
        draw = rng.random()
        if draw < 0.08:
            return value[:at] + value[at + 1 :]
        if draw < 0.16:
            return value[:at] + [value[at]] * int(rng.choice([2, 3, 300])) + value[at + 1 :]
        if draw < 0.22:
            return [value[i] for i in rng.permutation(len(value))]
        return [*value[:at], _change_value(rng, value[at], whole), *value[at + 1 :]]
    return _new_value(rng, value, whole)


def _new_value(rng: np.random.Generator, value: Any, whole: Any) -> Any:
    """Return another value in place of one: mostly of its type."""
    draw = rng.random()
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and abs(value) < 1e300 and draw < 0.6:
        near = [value + 1, value - 1, -value, value * 2, value / 3, float(value)]
        near += INTS if isinstance(value, int) else ()
        pool: list[Any] = [*near, *FLOATS, *ODD]
    elif isinstance(value, str) and draw < 0.6:
        pool = [*NAMES, value * 2, value[:-1], "a" * 10**5, "\ud800", "\0"]
    elif draw < 0.8:
        pool = [None, True, False, [], {}, [[]], "x", 0, -1, [value], {"name": value}, [value] * 99]
        pool += [*INTS, *FLOATS, *ODD, 10**400, list(range(1000))]
    else:
        pool = [_pick(rng, whole)]
    return pool[rng.integers(len(pool))]


def _pick(rng: np.random.Generator, value: Any) -> Any:
    """Return some value out of a manifest."""
    while isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        items = list(value.values()) if isinstance(value, dict) else value
        value = items[rng.integers(len(items))]
    return value


# Arrays ------------------------------------------------------------------------------------------


def change_names(rng: np.random.Generator, arrays: Arrays, other: bytes) -> Arrays:
    """Rename, leave out, exchange or add arrays."""
    arrays, theirs = dict(arrays), take_apart(other)[1]
    if not arrays:
        return theirs
    one, two = (list(arrays)[n] for n in rng.integers(len(arrays), size=2).tolist())
    what = rng.integers(6)
    if what == 0:
        del arrays[one]
    elif what == 1:
        odd = (two, "é", "a" * 10**5, f"{one}x", one.upper(), "../../x", "", "__metadata__x")
        arrays[odd[rng.integers(len(odd))]] = arrays.pop(one)
    elif what == 2:
        arrays[one], arrays[two] = arrays[two], arrays[one]
    elif what == 3:
        arrays[f"{one}/{two}"] = arrays[one]
    elif what == 4:
        arrays |= {name: array for name, array in theirs.items() if rng.random() < 0.3}
    else:
        arrays |= {name: array for name, array in theirs.items() if name in arrays}
    return arrays


def change_array(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    """Change the shape, the type or the entries of an array."""
    draw = rng.random()
    if draw < 0.35:
        return _reshape(rng, array)
    if draw < 0.5:
        dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        with np.errstate(all="ignore"):
            is_same = array.dtype.itemsize == dtype.itemsize
            return array.view(dtype) if is_same and rng.random() < 0.5 else array.astype(dtype)
    return _change_entries(rng, array)


def _reshape(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of another shape, with about the same entries."""
    what = rng.integers(8)
    if what == 0 or array.ndim == 0:
        return array.reshape(-1)
    axis = int(rng.integers(array.ndim))
    if what == 1:
        return array[None] if rng.random() < 0.5 else array[..., None]
    if what == 2:
        return np.moveaxis(array, axis, 0)
    n = array.shape[axis]
    keep = {3: n - 1, 4: 0, 5: 1}.get(int(what))
    if keep is not None:
        return np.take(array, range(max(keep, 0)) if keep <= n else [], axis)
    if what == 6:
        return np.concatenate([array, array], axis)
    more = np.take(array, rng.integers(0, n, n + 1), axis) if n else array
    return more if rng.random() < 0.9 else np.resize(array, (int(rng.integers(1, 5000)),))


def _change_entries(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in which some entries are extreme, exchanged, repeated or a little off."""
    array = array.copy()
    if array.size == 0:
        return array
    flat = array.reshape(-1)
    at = rng.integers(0, flat.size, int(rng.integers(1, 4)))
    what = rng.integers(5)
    if what == 0:
        flat[at] = flat[rng.integers(0, flat.size, len(at))]
    elif what == 1:
        rng.shuffle(flat)
    elif array.dtype.kind == "f":
        pool = np.asarray([*FLOATS, *ODD, 1e30, 1e38])
        with np.errstate(over="ignore"):
            flat[at if what < 4 else ...] = rng.choice(pool, len(at)).astype(array.dtype)[0]
    elif array.dtype.kind == "b":
        flat.view(np.uint8)[at] = rng.integers(0, 4, len(at))
    else:
        limits = np.iinfo(array.dtype)
        pool = np.asarray([limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, 100], array.dtype)
        if what == 2:
            flat[at] = pool[rng.integers(0, len(pool), len(at))]
        elif what == 3:
            flat[at] += np.asarray(rng.integers(0, 2) * 2 - 1).astype(array.dtype)
        else:
            flat[...] = pool[rng.integers(len(pool))]
    return array
