"""The memory that feature extraction needs: the peak of a whole process, with images and symbols.

Percepts of 640×480 are created, stored, and extracted: detection, description, vocabulary,
quantization, index. *Filmed* ones are views of photographs, turned and zoomed, with noise, so
that no point looks the same twice: of those in ``RLVC_DATA`` if it is set, else of scikit-image.
*Drawn* ones are windows of one picture, moved by whole pixels, so that points recur exactly. Each
line has its own process. The default is the detector that rlvc chooses for such percepts.

Run it with ``python benchmarks/memory.py [--percepts N] [--cases CASE ...]``. With ``--estimate``
whole runs of the command line are compared with the estimates of ``rlvc.runs.resources``, for a
custom task also with the estimate from its interactions:
``python benchmarks/memory.py --estimate [--runs RUN ...] [--interactions N ...]``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import gymnasium
import numpy as np
import skimage.data
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, Percepts, collect
from rlvc.cli import main as main_of_rlvc
from rlvc.envs.photos.images import PHOTOGRAPHS, maze_picture
from rlvc.runs import estimate_collection, estimate_learning
from rlvc.vision import Harris, Orb, OrbDescriptor, Sift, SiftDescriptor

Image = NDArray[np.uint8]

HEIGHT, WIDTH = 480, 640
NOISE = 4  # levels of a pixel that differ from one image to the next
PAIRS = {
    "default": RLVC(),
    "harris": RLVC(detector=Harris()),
    "sift": RLVC(detector=Sift()),
    "rootsift": RLVC(detector=Sift(), descriptor=SiftDescriptor(root=True)),
    "orb": RLVC(detector=Orb(), descriptor=OrbDescriptor()),
}
CASES = ("filmed-default", "filmed-rootsift", "filmed-orb", "filmed-harris", "drawn-default",
         "drawn-sift", "drawn-orb")  # fmt: skip


def mebibytes(name: str) -> int:
    """Return the resident memory of this process: VmRSS now, VmHWM at the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return round(int(line.split()[1]) / 1024)
    raise OSError(f"/proc/self/status must have a line {name}; it has none.")


def photographs() -> list[Image]:
    """Return the photographs of ``RLVC_DATA``, else those of scikit-image."""
    if folder := os.environ.get("RLVC_DATA"):
        paths = sorted(Path(folder).expanduser().rglob("*.jpg"))
    else:
        paths = [Path(skimage.data.__file__).parent / name for name in PHOTOGRAPHS]
    read = (cv2.imread(str(path), cv2.IMREAD_COLOR) for path in paths)
    return [cv2.cvtColor(one, cv2.COLOR_BGR2RGB) for one in read if one is not None]


def filmed(n: int) -> Iterator[Image]:
    """Yield views of photographs as from a camera."""
    pictures = photographs()
    rng = np.random.default_rng(0)
    grain = rng.integers(0, NOISE, (2 * HEIGHT, 2 * WIDTH, 3), dtype=np.uint8)
    for _ in range(n):
        picture = pictures[rng.integers(len(pictures))]
        height, width = picture.shape[:2]
        turn = cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), rng.uniform(-15, 15), 1.0)
        turn[:, :2] *= rng.uniform(0.7, 1.5)
        turn[:, 2] = np.array([WIDTH / 2, HEIGHT / 2]) - turn[:, :2] @ (
            rng.uniform(0.2, 0.8, 2) * [width, height]
        )
        view = cv2.warpAffine(picture, turn, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT_101)
        y, x = rng.integers(0, [HEIGHT, WIDTH])
        yield cv2.add(view, grain[y : y + HEIGHT, x : x + WIDTH])


def drawn(n: int) -> Iterator[Image]:
    """Yield distinct windows of one picture."""
    picture = maze_picture()
    height, width = picture.shape[0] - HEIGHT, picture.shape[1] - WIDTH
    rng = np.random.default_rng(0)
    for corner in rng.choice(height * width, n, replace=False).tolist():
        y, x = divmod(corner, width)
        yield picture[y : y + HEIGHT, x : x + WIDTH]


MAKERS = {"filmed": filmed, "drawn": drawn}


def shown(kind: str, n: int) -> Iterator[Image]:
    """Yield percepts from another process, so that this one does not hold the photographs."""
    own = [sys.executable, __file__, "--make", kind, "--percepts", str(n)]
    with subprocess.Popen(own, stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        for _ in range(n):
            data = maker.stdout.read(HEIGHT * WIDTH * 3)
            yield np.frombuffer(data, np.uint8).reshape(HEIGHT, WIDTH, 3)


def store(kind: str, n: int) -> Interactions:
    """Return interactions with n distinct percepts."""
    percepts = Percepts()
    for image in shown(kind, n):
        percepts.add(image)
    if len(percepts) != n:
        raise RuntimeError(f"The {n} percepts must be distinct; there are {len(percepts)}.")
    start, end = np.arange(n), (np.arange(n) + 1) % n
    is_last = np.arange(n) % 10 == 9
    return Interactions(
        percepts, start, np.arange(n) % 4, (end % 7 == 0).astype(np.float64), end,
        np.arange(n) // 10, is_last, np.zeros(n, np.bool_), n_actions=4,
    )  # fmt: skip


def measure(case: str, n: int) -> None:
    """Print the memory of one case, step by step."""
    kind, _, pair = case.partition("-")
    steps = [f"imports {mebibytes('VmRSS')}"]
    data = store(kind, n)
    steps.append(f"percepts {mebibytes('VmRSS')}")
    learner = PAIRS[pair].fitted(data.percepts)
    steps.append(f"choice {mebibytes('VmRSS')}")
    extractor = learner.new_extractor(data.percepts)
    peaks = list[str]()
    begin = time.perf_counter()
    n_images = 0

    def on_image() -> None:
        nonlocal n_images
        n_images += 1
        if n_images == n:
            peaks.append(f"extracted {mebibytes('VmRSS')}")

    database = learner.extract(data, on_image=on_image, extractor=extractor)
    seconds = time.perf_counter() - begin
    steps += [*peaks, f"index {mebibytes('VmRSS')}"]
    name = type(learner.detector).__name__.lower()
    points = len(database.index.places[0].feature)
    print(
        f"{case} ({name}), {n} percepts: {seconds:.0f} s, {points / n:.0f} occurrences a percept, "
        f"{extractor.n_symbols} symbols; MiB: {', '.join(steps)}; peak {mebibytes('VmHWM')} MiB",
        flush=True,
    )


MINIGRID = "minigrid:MiniGrid-Empty-8x8-v0"
RUNS: dict[str, tuple[str, list[str], int | None]] = {  # environment, command, distinct images
    "maze": ("rlvc/Maze-v0", ["run", "maze"], None),
    "hill": ("rlvc/Hill-v0", ["run", "hill"], 1025),
    "campus": ("rlvc/Campus-v0", ["run", "campus"], 44 * 24),
    "minigrid": (
        MINIGRID, ["learn", MINIGRID, "--wrap", "minigrid.wrappers:RGBImgObsWrapper"], None,
    ),
}  # fmt: skip


def estimate(name: str, n: int) -> None:
    """Print the estimate for a run, and what it needs."""
    env_id, words, images = RUNS[name]
    env = gymnasium.make(env_id, disable_env_checker=True)
    if name == "minigrid":
        env = importlib.import_module("minigrid.wrappers").RGBImgObsWrapper(env)
    space, is_custom = env.observation_space, words[0] == "learn"
    sample = collect(env, 100, seed=0) if name == "maze" else None
    before = estimate_collection(
        space, n, RLVC(), images=images, sample=sample, keeps_images=is_custom
    )
    known = estimate_learning(collect(env, n, seed=0), RLVC()) if is_custom else None
    own = [sys.executable, __file__, "--here", "--estimate", "--runs", name, "--interactions"]
    told = subprocess.run([*own, str(n)], check=True, capture_output=True, text=True).stdout
    peak, disk = map(int, told.splitlines()[-1].split())
    said, kept = before.memory / 2**20, before.disk / 2**20
    line = (
        f"{name}, {n} interactions: peak {peak} MiB, estimate {said:.0f} MiB "
        f"(ratio {said / peak:.2f})"
    )
    if known is not None:
        then = known.memory / 2**20
        line += f", from the interactions {then:.0f} MiB (ratio {then / peak:.2f})"
    print(f"{line}; disk at most {disk} MiB, estimate {kept:.0f} MiB", flush=True)


def run_here(name: str, n: int) -> None:
    """Run a task, and print the peaks of its memory and of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        sizes = watch(out)
        try:
            main_of_rlvc([*RUNS[name][1], "--interactions", str(n), "--out", str(out)])
        except SystemExit as stop:
            if stop.code:
                raise
        print(mebibytes("VmHWM"), round(max(sizes) / 2**20))


def watch(folder: Path) -> list[int]:
    """Return a list to which the size of a folder in bytes is appended every second."""
    sizes = [0]

    def append_size() -> None:
        while True:
            with contextlib.suppress(OSError):  # files come and go
                sizes.append(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()))
            time.sleep(1.0)

    threading.Thread(target=append_size, daemon=True).start()
    return sizes


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--percepts", type=int, default=20_000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--estimate", action="store_true", help="compare runs with estimates")
    parser.add_argument("--interactions", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--here", action="store_true", help="measure in this process")
    parser.add_argument("--make", choices=MAKERS, help="write percepts to the standard output")
    options = parser.parse_args()
    if options.make:
        for image in MAKERS[options.make](options.percepts):
            sys.stdout.buffer.write(np.ascontiguousarray(image).data)
        return
    if options.estimate:
        for n in options.interactions:
            for name in options.runs:
                (run_here if options.here else estimate)(name, n)
        return
    for case in options.cases:
        if options.here:
            measure(case, options.percepts)
            continue
        own = [sys.executable, __file__, "--here", "--percepts", str(options.percepts)]
        subprocess.run([*own, "--cases", case], check=True)


if __name__ == "__main__":
    main()
