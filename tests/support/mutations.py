"""Files that are broken in all ways that come to mind, and what to do with those that load.

A file is broken byte by byte; or it is taken apart, its manifest, its arrays, its members or zip's
headers are changed, and it is put together again with all checksums right.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.members import LONGEST, MANIFEST, SEAL, MemberWriter, read_member, read_members

Members = list[tuple[str, bytes]]

N_COMMENT = len(SEAL) + 64
INTS = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, -(2**63), 2**64)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e-9, 1e9, 1e100, 1e308, -1e308)
ODD = (float("nan"), float("inf"), -float("inf"))
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8")
NAMES = ("", "name", "harris", "sift", "orb", "invariants", "euclidean", "mahalanobis", "hamming",
         "tree", "diagrams", "rootsift", "frame 2", "front", "é" * 9)  # fmt: skip


@dataclass(frozen=True)
class Mutator:
    """Break files of one kind, the same ones for the same seed.

    Attributes:
        files: What is whole, and of one kind.
        others: Whole files of other kinds.
    """

    files: list[bytes]
    others: list[bytes]

    def mutate(self, seed: int) -> bytes:
        """Return the file of a number."""
        rng = np.random.default_rng(seed)
        data = self.files[rng.integers(len(self.files))]
        draw = rng.random()
        if draw < 0.08:
            return break_bytes(rng, data, self._any(rng))
        if draw < 0.14:
            return break_bytes(rng, unseal(data), unseal(self._any(rng)))
        if draw < 0.22:
            return seal(break_bytes(rng, unseal(data), unseal(self._any(rng))))
        if draw < 0.32:
            return break_headers(rng, data)
        members = take_apart(data)
        for _ in range(rng.geometric(0.7)):
            change = CHANGES[rng.integers(len(CHANGES))]
            members = change(rng, members, self._any(rng))
        whole = put_together(members)
        return unseal(whole) if rng.random() < 0.1 else whole

    def _any(self, rng: np.random.Generator) -> bytes:
        pool = self.others if self.others and rng.random() < 0.3 else self.files
        return pool[rng.integers(len(pool))]


# Whole files -------------------------------------------------------------------------------------


def seal(data: bytes) -> bytes:
    """Return a file with a checksum that is right, whatever it holds."""
    start = data[:-2] + N_COMMENT.to_bytes(2, "little") + SEAL
    return start + hashlib.sha256(start).hexdigest().encode()


def unseal(data: bytes) -> bytes:
    """Return a file as rlvc wrote it before there were checksums."""
    return data[: -N_COMMENT - 2] + b"\0\0"


def take_apart(data: bytes) -> Members:
    """Return the names and the bytes of the members of a whole file."""
    file = io.BytesIO(data)
    found = read_members(file, len(data)).items()
    return [(name, read_member(file, member)) for name, member in found]


def put_together(members: Members) -> bytes:
    """Return a file in which all but what the members hold is right."""
    file = io.BytesIO()
    writer = MemberWriter(file)
    for name, data in members:
        writer.add(name, data)
    writer.close()
    return file.getvalue()


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


def break_headers(rng: np.random.Generator, data: bytes) -> bytes:
    """Change numbers in zip's own notes, and make the checksum right again."""
    data = unseal(data)
    end = len(data) - 22
    start = struct.unpack_from("<L", data, end + 16)[0]
    fields: list[tuple[int, str]] = [
        (end + at, kind) for at, kind in zip(range(4, 22, 2), "HHHHLLLLH", strict=True)
    ]
    at = start
    while at < end:
        fields += [(at + i, "H") for i in (4, 6, 8, 10, 12, 14, 28, 30, 32, 34, 36)]
        fields += [(at + i, "L") for i in (0, 16, 20, 24, 38, 42)]
        begin = struct.unpack_from("<L", data, at + 42)[0]
        fields += [(begin + i, "H") for i in (4, 6, 8, 10, 12, 26, 28)]
        fields += [(begin + i, "L") for i in (0, 14, 18, 22)]
        at += 46 + sum(struct.unpack_from("<3H", data, at + 28))
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = fields[rng.integers(len(fields))]
        bits = 16 if kind == "H" else 32
        old = struct.unpack_from(f"<{kind}", changed, at)[0]
        near = old + int(rng.integers(-40, 41))
        value = [0, 1, 8, 0x800, 2**bits - 1, 2**bits - 2, near, old ^ 1 << int(rng.integers(bits))]
        struct.pack_into(f"<{kind}", changed, at, value[rng.integers(len(value))] % 2**bits)
    return seal(bytes(changed)) if rng.random() < 0.8 else bytes(changed)


# Members -----------------------------------------------------------------------------------------


def change_members(rng: np.random.Generator, members: Members, other: bytes) -> Members:
    """Rename, leave out, exchange, reorder or add members."""
    members = list(members)
    one, two = rng.integers(len(members), size=2).tolist()
    (name, data), (name_two, data_two) = members[one], members[two]
    what = rng.integers(8)
    if what == 0:
        members.pop(one)
    elif what == 1:
        odd = (name_two, "é", "a" * LONGEST, f"{name}x", name.upper(), "../../x.npy", "x")
        members[one] = (odd[rng.integers(len(odd))], data)
    elif what == 2:
        members[one], members[two] = (name, data_two), (name_two, data)
    elif what == 3:
        members.insert(two, (name, data))
    elif what == 4:
        members = [members[i] for i in rng.permutation(len(members))]
    elif what == 5:
        extra = take_apart(other)
        members.insert(one, extra[rng.integers(len(extra))])
    elif what == 6:
        theirs = dict(take_apart(other))
        members = [(key, theirs.get(key, value)) for key, value in members[: one + 1]] + (
            members[one + 1 :]
        )
    else:
        members[one] = (name, break_bytes(rng, data, data_two) if data else b"x")
    return members or [(MANIFEST, b"{}")]


# The manifest ------------------------------------------------------------------------------------


def change_manifest(rng: np.random.Generator, members: Members, other: bytes) -> Members:
    """Change the manifest somewhere, or its text."""
    found = dict(members).get(MANIFEST)
    try:
        manifest = json.loads(found or b"")
    except (ValueError, RecursionError):
        return members
    what = rng.random()
    if what < 0.08:
        text = break_bytes(rng, found or b"{}", b'[{"\\u\xff' * 9)
    elif what < 0.12:
        deep = int(rng.choice([5, 31, 32, 33, 1000, 100_000]))
        text = json.dumps(manifest).encode()[:-1] + b', "deep": ' + b"[" * deep + b"]" * deep + b"}"
    else:
        manifest = _change_value(rng, manifest, manifest)
        text = json.dumps(manifest).encode()
    return [(name, text if name == MANIFEST else data) for name, data in members]


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


def change_array(rng: np.random.Generator, members: Members, other: bytes) -> Members:
    """Change the shape, the type or the entries of one array, or what it says of them."""
    places = [i for i, (name, _) in enumerate(members) if name.endswith(".npy")]
    if not places:
        return members
    place = places[rng.integers(len(places))]
    name, data = members[place]
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # an earlier change; NumPy raises what it likes
        return members
    if array.dtype.kind not in "biuf" or max(array.shape, default=0) > 10**6:
        return members
    draw = rng.random()
    if draw < 0.15:
        data = _lie(rng, array)
    elif draw < 0.4:
        data = npy(_reshape(rng, array))
    elif draw < 0.5:
        dtype = DTYPES[rng.integers(len(DTYPES))]
        with np.errstate(all="ignore"):
            is_same = array.dtype.itemsize == np.dtype(dtype).itemsize
            array = array.view(dtype) if is_same and rng.random() < 0.5 else array.astype(dtype)
        data = npy(array)
    else:
        data = npy(_change_entries(rng, array))
    return [*members[:place], (name, data), *members[place + 1 :]]


def npy(array: NDArray[Any]) -> bytes:
    """Return an array as NumPy writes it."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return file.getvalue()


def _lie(rng: np.random.Generator, array: NDArray[Any]) -> bytes:
    """Return an array whose header says something else."""
    shapes = (
        "()", "(0,)", f"({2**62},)", "(-1,)", f"(0, {10**17})", f"(1, {array.size})", "(3)",
        f"({'1, ' * 20}{array.size})", f"({array.size},)", "[3]", f"({10**19},)", "(1e3,)",
        f"({'(' * 500})", f"({2**32}, {2**32})", repr(array.shape),
    )  # fmt: skip
    dtypes = (*DTYPES, "<c8", "|O", "|S8", "<M8", ">f8", "<f16", "|V8", array.dtype.str)
    shape, dtype = shapes[rng.integers(len(shapes))], dtypes[rng.integers(len(dtypes))]
    order = "True" if rng.random() < 0.1 else "False"
    text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    version = rng.choice([1, 2, 3], p=[0.8, 0.1, 0.1]).astype(np.uint8).tobytes()
    length = len(text) if rng.random() < 0.9 else int(rng.integers(2**16))
    return b"".join(
        [b"\x93NUMPY", version, b"\0", length.to_bytes(2, "little"), text.encode(), array.tobytes()]
    )


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


Change = Callable[[np.random.Generator, Members, bytes], Members]
CHANGES: tuple[Change, ...] = (
    change_manifest, change_manifest, change_manifest, change_array, change_array, change_members,
)  # fmt: skip
