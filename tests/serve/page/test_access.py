"""Who is let in to the page: the token, the cookie, names of the server, and where a write may come from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.serve.page.guard import FORM_TOKEN, OPEN_PATHS
from flightlog.serve.page.page import READS, WRITES
from flightlog.testing.stores import verify_closed
from flightlog.tests.serve.page.conftest import Browser, fill, shown

if TYPE_CHECKING:
    from flightlog import Store
    from flightlog.tests.serve.page.conftest import Shown

pytestmark = pytest.mark.xdist_group("page-access")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for all tests here: what is refused changes nothing."""
    path = tmp_path_factory.mktemp("access") / "store"
    with flightlog.open(path, flightlog.StoreSettings.small()) as opened:
        fill(opened)
        yield opened
    verify_closed(path)


@pytest.fixture(scope="module")
def page(store: Store) -> Iterator[Shown]:
    with shown(store) as found:
        yield found


@pytest.fixture(scope="module")
def browser(page: Shown) -> Browser:
    return Browser(page.port, page.link)


REDRIVE = {"group": "mailer", "all": "1", "confirmed": "1"}


def test_the_link_gives_a_cookie_and_goes_on_without_the_token(page: Shown) -> None:
    browser = Browser(page.port, page.link)
    answer = browser.get("/group?" + page.link.partition("?")[2] + "&name=billing")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"flightlog-{page.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {each.strip() for each in cookie.split(";")}
    assert answer.headers["refresh"] == "0; url=/group?name=billing"
    assert page.link.partition("token=")[2] not in cookie + answer.text


@pytest.mark.parametrize("path", [*READS, "/live/events", "/absent", "/?token=wrong", "/?token="])
def test_nothing_is_shown_without_the_cookie(browser: Browser, path: str) -> None:
    for cookie in ("", f"flightlog-{browser.port}=wrong", "flightlog=x"):
        answer = browser.get(path, Cookie=cookie)
        assert answer.status == 401
        assert "open the link with the token" in answer.words
        assert "orders" not in answer.text


def test_a_token_opens_no_other_address(browser: Browser, page: Shown) -> None:
    answer = browser.get("//elsewhere.example/?" + page.link.partition("?")[2], Cookie="")
    assert answer.headers["refresh"] == "0; url=/"


@pytest.mark.parametrize("path", OPEN_PATHS)
def test_the_style_and_the_script_are_open(browser: Browser, path: str) -> None:
    assert browser.get(path, Cookie="").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "a@b"])
def test_a_name_that_is_not_the_servers_is_refused(browser: Browser, host: str) -> None:
    assert browser.get("/", Host=host).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:8080", "LOCALHOST:9"])
def test_names_of_this_machine_and_addresses_are_its_own(browser: Browser, host: str) -> None:
    assert browser.get("/", Host=host).status == 200


def test_another_page_may_not_even_read(browser: Browser) -> None:
    assert browser.get("/", Origin="http://evil.example").status == 403
    assert browser.get("/", Origin="null").status == 403
    assert browser.get("/", Origin=f"http://127.0.0.1:{browser.port}").status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://127.0.0.1:1", "https://evil.example#http://127.0.0.1"]
)
@pytest.mark.parametrize("path", WRITES)
def test_a_write_from_another_page_is_refused(browser: Browser, page: Shown, path: str, origin: str) -> None:
    token = browser.form_token("/dead?group=mailer")
    answer = browser.post(path, {**REDRIVE, FORM_TOKEN: token}, Origin=origin)
    assert answer.status == 403
    assert len(page.store.redrive("mailer", dry_run=True)) == 3


@pytest.mark.parametrize("given", [{}, {FORM_TOKEN: ""}, {FORM_TOKEN: "wrong"}, {FORM_TOKEN: "é"}])
@pytest.mark.parametrize("path", WRITES)
def test_a_write_without_the_forms_token_is_refused(
    browser: Browser, page: Shown, path: str, given: dict[str, str]
) -> None:
    assert browser.post(path, {**REDRIVE, **given}).status == 403
    assert len(page.store.redrive("mailer", dry_run=True)) == 3


@pytest.mark.parametrize("path", WRITES)
def test_a_write_is_no_link(browser: Browser, path: str) -> None:
    assert browser.get(f"{path}?group=mailer&all=1&confirmed=1").status == 405


def test_a_page_that_reads_writes_nothing(store: Store) -> None:
    with shown(store, can_write=False) as page:
        browser = Browser(page.port, page.link)
        for path in ("/", "/dead?group=mailer", "/group?name=billing", "/delays"):
            answer = browser.get(path)
            assert 'method="post"' not in answer.text
            assert "read-only" in answer.text
        for path in WRITES:
            answer = browser.post(path, {**REDRIVE, FORM_TOKEN: "x"})
            assert answer.status == 403
            assert "--ui-write" in answer.words
        assert len(store.redrive("mailer", dry_run=True)) == 3


@pytest.mark.parametrize("path", [*READS, "/absent", "/static/page.css"])
def test_every_answer_forbids_what_it_does_not_need(browser: Browser, path: str) -> None:
    for cookie in (browser.cookie, ""):
        headers = browser.get(path, Cookie=cookie).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "aiohttp" not in headers["server"]


@pytest.mark.parametrize("path", READS)
def test_no_view_has_a_script_or_a_style_inside_or_anything_from_elsewhere(browser: Browser, path: str) -> None:
    text = browser.get(path + "?name=orders&group=mailer&at=0").text
    assert not re.search(r"<script(?![^>]* src=\"/static/)|<style|\sstyle=|\son[a-z]+=", text)
    assert not re.search(r"(?:src|href|action)=\"(?![/#])", text)


def test_a_form_that_is_too_long_is_refused(browser: Browser) -> None:
    answer = browser.post("/redrive", {"group": "mailer", "id": "x" * (2 << 20)})
    assert answer.status == 413
