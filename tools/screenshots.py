"""Take screenshots of every view of the page of a run, on a laptop and on a phone, light and dark.

    python tools/screenshots.py runs/maze/report.html pictures/

Needs Chromium with its driver, and selenium.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the browser of the tests

from tests.support import browser as browsing

READY = "return !document.querySelector('main').textContent.includes('Loading')"
ROUTES = ("overview", "learning", "classifier", "class/0/1", "features", "feature/0", "task")


def main() -> None:
    """Write the screenshots, and print the errors of the console."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("routes", nargs="*", default=ROUTES)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.contextmanager(browsing.start)() as browser:
        for size in (browsing.LAPTOP, browsing.PHONE):
            for dark in (False, True):
                for route in given.routes:
                    browser.open(f"{given.page.resolve().as_uri()}#{route}", size=size, dark=dark)
                    browser.wait_for(READY)
                    time.sleep(0.3)  # examples load later
                    theme = "dark" if dark else "light"
                    name = f"{route.replace('/', '-')}-{size[0]}-{theme}.png"
                    browser.driver.save_screenshot(str(given.folder / name))
                    if complaints := browser.errors():
                        print(name, complaints)


if __name__ == "__main__":
    main()
