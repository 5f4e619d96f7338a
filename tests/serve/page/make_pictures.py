"""Make the pictures of docs/page.md: `.venv/bin/python -P tests/serve/page/make_pictures.py`. Needs chromium."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import flightlog
from flightlog.tests.serve.page.conftest import fill, shown
from flightlog.tests.support.headless_chrome import headless_chrome, look_as

DOCS = Path(__file__).resolve().parents[3] / "docs"
PICTURES = (
    ("page-group.png", "/group?name=billing", 1000, 640, "light"),
    ("page-dead-letters.png", "/dead?group=mailer", 1000, 360, "dark"),
    ("page-phone.png", "/", 360, 760, "light"),
)
"""File, path, width, height, scheme."""


def main() -> None:
    with (
        TemporaryDirectory() as folder,
        flightlog.open(Path(folder) / "orders-store", flightlog.StoreSettings.small()) as store,
    ):
        fill(store)
        with shown(store) as page, headless_chrome() as driver:
            driver.get(page.link)
            for name, path, width, height, scheme in PICTURES:
                look_as(driver, width, scheme, height)
                driver.get(f"http://127.0.0.1:{page.port}{path}")
                driver.save_screenshot(str(DOCS / name))


if __name__ == "__main__":
    main()
