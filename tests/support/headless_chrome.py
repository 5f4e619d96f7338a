"""Debian's Chromium without a screen, driven by Selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TELEPHONE = 360
"""Pixels of width up to which a touch screen is emulated."""


@contextmanager
def headless_chrome() -> Iterator[Chrome]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    binary, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(argument)
    if os.geteuid() == 0:  # its sandbox needs another user
        options.add_argument("--no-sandbox")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    try:
        driver.set_page_load_timeout(PATIENCE_S)
        yield driver
    finally:
        driver.quit()


def look_as(driver: Chrome, width: int, scheme: str, height: int = 900) -> None:
    """Have pages see a screen of this width in pixels, and a person who wants `light` or `dark`."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= TELEPHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
