"""The size of the pages of runs, the time until they show something, and the speed of graphs.

Needs Chromium with its driver, and selenium (``pip install "rlvc[test]"``):

    python benchmarks/report.py runs/maze runs/hill

Every page is rendered and opened a few times; the longest time counts. Its classifier, completely
unfolded, is panned and zoomed at every frame.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the browser of the tests

from tests.support import browser as browsing

from rlvc.report import render
from rlvc.report.web import PageBuilder

OPENINGS = 5
HEAD = ("run", "written in", "size", "first view", "classifier", "nodes", "frame, median", "95%")


def main() -> None:
    """Print a line for every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    runs = parser.parse_args().runs
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    browsers = contextlib.contextmanager(browsing.start)
    with browsers() as browser, tempfile.TemporaryDirectory() as folder:
        for run in runs:
            row = measure(browser, run, Path(folder) / "report.html")
            print(f"| {run.name} | {' | '.join(row)} |", flush=True)


def measure(browser: browsing.Browser, run: Path, file: Path) -> list[str]:
    """Write the page of a run, open it, and return the measurements."""
    begin = time.perf_counter()
    file.write_text(render(PageBuilder().describe(run)), encoding="utf-8")
    written = time.perf_counter() - begin
    first = []
    for _ in range(OPENINGS):
        browser.open(file.as_uri())
        browser.settle()
        first.append(browser.seconds_to_first_view())
    begin = time.perf_counter()
    browser.go("classifier")
    opened = time.perf_counter() - begin
    n_nodes = browser.unfold()
    times = browser.frames(browser.find("section.classifier canvas"))
    return [
        f"{written:.1f} s", f"{file.stat().st_size / 1e6:.1f} MB", f"{max(first):.2f} s",
        f"{opened:.2f} s", str(n_nodes), f"{statistics.median(times):.1f} ms",
        f"{statistics.quantiles(times, n=20)[-1]:.1f} ms",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
