"""A real browser without a window, for tests of pages; tests that need one are skipped without."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
WHY = "needs Chromium: apt-get install chromium chromium-driver"
LAPTOP, PHONE = (1440, 900), (390, 844)
PATIENCE = 20  # seconds until a page is given up


def start() -> Iterator[Browser]:
    """Start a browser, or skip the test that asks for one; where it is required, fail."""
    if not CHROMIUM or not DRIVER:
        if os.environ.get("RLVC_BROWSER") == "required":
            pytest.fail(WHY)
        pytest.skip(WHY)
    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(60)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """A window that clicks, types and tells what it shows."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, size: tuple[int, int] = LAPTOP, dark: bool = False) -> None:
        """Open a page anew in a window of a size, and wait until it shows a view."""
        width, height = size
        metrics = {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        }  # fmt: skip
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
        self.errors()  # of a page before
        self.driver.get(url)
        self.wait("section.view")

    def go(self, route: str) -> None:
        """Follow a link of the page."""
        self.run("location.hash = arguments[0]", f"#{route}")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, selector: str) -> WebElement:
        return WebDriverWait(self.driver, PATIENCE).until(lambda d: self.find(selector))

    def wait_for(self, script: str, *arguments: Any) -> Any:
        """Wait until a script returns something true, and return it."""
        return WebDriverWait(self.driver, PATIENCE).until(lambda d: self.run(script, *arguments))

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def tab(self, n: int) -> None:
        """Press the tabulator so many times."""
        chain = ActionChains(self.driver)
        for _ in range(n):
            chain.send_keys(Keys.TAB)
        chain.perform()

    def press(self, *keys: str) -> None:
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()
        self.settle()

    def click(self, element: WebElement, across: float = 0.5, down: float = 0.5) -> None:
        """Click on an element, in its middle or at another share of its width and height."""
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        box = self.run("return arguments[0].getBoundingClientRect().toJSON()", element)
        x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
        for kind in ("mousePressed", "mouseReleased"):
            self.driver.execute_cdp_cmd(
                "Input.dispatchMouseEvent",
                {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1},
            )
        self.settle()

    def seconds_to_first_view(self) -> float:
        """Return how long after it was asked for the page showed its first view.

        The view is in the document a frame before it is on the screen, so this waits for the mark.
        """
        mark = self.wait_for("return performance.getEntriesByName('first-view')[0]?.toJSON()")
        return float(mark["startTime"]) / 1000

    def unfold(self) -> int:
        """Unfold the whole graph of the classifier; return how many nodes it shows."""
        (button,) = [one for one in self.find_all("button") if one.text == "Unfold all"]
        self.click(button)
        return len(self.find_all('[role="treeitem"]'))

    def frames(self, canvas: WebElement) -> list[float]:
        """Pan and zoom a graph, a bit at every frame; return what the frames took, in ms."""
        return [float(one) for one in self.driver.execute_async_script(FRAMES, canvas)]

    def errors(self) -> list[str]:
        """Return what the console has to complain about, and forget it."""
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


FRAMES = """
const done = arguments[1], box = arguments[0].getBoundingClientRect();
const at = [box.x + box.width / 2, box.y + box.height / 2];
const send = (type, x, y, more) => document.elementFromPoint(...at).dispatchEvent(
  new (type === 'wheel' ? WheelEvent : PointerEvent)(type, {
    clientX: x, clientY: y, bubbles: true, cancelable: true, pointerId: 1, isPrimary: true,
    button: 0, buttons: 1, ...more}));
const times = [];
let last = null, n = 0;
send('pointerdown', ...at, {});
const step = (now) => {
  if (last !== null) times.push(now - last);
  last = now;
  n += 1;
  if (n <= 60) send('pointermove', at[0] + 3 * n * (n % 2 ? 1 : -1), at[1] - 4 * n, {});
  else if (n === 61) send('pointerup', ...at, {});
  else if (n <= 120) send('wheel', ...at, {deltaY: n % 40 < 20 ? 60 : -60});
  else return done(times);
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
"""
