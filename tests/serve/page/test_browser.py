"""A person's tasks on the page, in a real browser: at the width of a telephone and of a desk, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog.serve.page.page import READS
from flightlog.tests.serve.test_refusals import METADATA, a_send
from flightlog.tests.support.headless_chrome import headless_chrome, look_as
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

    from flightlog.tests.serve.page.conftest import Shown

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("chrome")]

MOST_CLICKS = 4
NARROW, WIDE = 360, 1280
CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.map((each) => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const found = parse(getComputedStyle(each).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found.slice(0, 3);
  }
  return [255, 255, 255];
};
const weak = [];
for (const element of document.querySelectorAll("body *")) {
  const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!hasText || element.tagName === "NOSCRIPT" || element.tagName === "OPTION") continue;
  const text = parse(getComputedStyle(element).color).slice(0, 3);
  const pair = [light(text), light(ground(element))].sort((a, b) => b - a);
  const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
  if (ratio < 4.5) weak.push(`${element.tagName} ${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return weak;
"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with headless_chrome() as driver:
        yield driver


class Person:
    """Somebody before a browser, who counts clicks."""

    def __init__(self, driver: Chrome, page: Shown, width: int, scheme: str) -> None:
        self.driver, self.page, self.clicks = driver, page, 0
        look_as(driver, width, scheme)
        driver.delete_all_cookies()
        driver.get(page.link)
        self.see("The store takes messages.")
        assert driver.execute_script(f"return matchMedia('(prefers-color-scheme: {scheme})').matches")

    def wait(self, met: Callable[[Chrome], Any], what: str) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        moving = (StaleElementReferenceException,)  # the page has changed while it was looked at
        waiting = WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05, ignored_exceptions=moving)
        return waiting.until(met, f"{what}: {self.text}")

    @property
    def text(self) -> str:
        return str(self.driver.execute_script("return document.body ? document.body.innerText : ''"))

    def see(self, text: str) -> None:
        self.wait(lambda _: text in self.text, f"no {text!r}")
        width, seen = self.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert width <= seen, f"the page is {width} pixels wide, {seen} are seen"

    def find(self, selector: str, text: str = "") -> WebElement:
        """The one that is seen and has this text."""

        def found(driver: Chrome) -> WebElement | None:
            for each in driver.find_elements("css selector", selector):
                if text in (each.text or "") and each.is_displayed():
                    return each
            return None

        element: WebElement = self.wait(found, f"no {selector} with {text!r}")
        return element

    def click(self, selector: str, text: str = "") -> None:
        self.clicks += 1
        self.find(selector, text).click()

    def key_until(self, name: str) -> WebElement:
        """Press Tab until what is focused has this name; it must be seen that it is."""
        from selenium.webdriver.common.keys import Keys

        for _ in range(100):
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
            focused = self.driver.switch_to.active_element
            if name in focused.accessible_name:
                assert focused.value_of_css_property("outline-style") != "none", f"{name}: its focus is not seen"
                return focused
        raise AssertionError(f"no key leads to {name!r}: {self.text}")

    def complaints(self) -> list[str]:
        found: list[dict[str, str]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in found if each["level"] == "SEVERE"]


@pytest.fixture(
    params=[(NARROW, "light"), (NARROW, "dark"), (WIDE, "light"), (WIDE, "dark")],
    ids=lambda each: f"{each[0]}-{each[1]}",
)
def person(request: pytest.FixtureRequest, chrome: Chrome, page: Shown) -> Iterator[Person]:
    found = Person(chrome, page, *request.param)
    yield found
    assert found.clicks <= MOST_CLICKS
    assert found.complaints() == []
    chrome.get("about:blank")


def test_a_persons_five_tasks(person: Person) -> None:
    """Each in at most four clicks from the overview."""
    for task in (
        find_a_message_by_key,
        see_why_a_group_lags,
        redrive_three,
        see_a_delayed_message,
        watch_a_send_arrive,
    ):
        person.driver.get(f"http://127.0.0.1:{person.page.port}/")
        person.clicks = 0
        task(person)
        assert person.clicks <= MOST_CLICKS, task.__name__


def find_a_message_by_key(person: Person) -> None:
    person.click("#find-text")
    person.driver.switch_to.active_element.send_keys("order-7")
    person.click("header button", "Find")
    person.see("Message order-7")
    person.see('{"order": 7}')


def see_why_a_group_lags(person: Person) -> None:
    person.click("main a", "billing")
    person.see("46 messages behind")
    person.see("No member is connected")
    person.see("100 % of the lag is in queue 3 of orders.")


def redrive_three(person: Person) -> None:
    person.click("main td a.bad", "3")
    person.see("3 dead letters, 3 not redriven.")
    person.click("button", "Redrive all 3")
    person.see("Redrive 3 dead letters of group mailer?")
    assert len(person.page.store.redrive("mailer", dry_run=True)) == 3, "it only asks"
    person.click("button", "Redrive 3 dead letters")
    person.see("3 dead letters redriven.")
    assert len(person.page.store.redrive("mailer", dry_run=True)) == 0


def see_a_delayed_message(person: Person) -> None:
    person.click("nav a", "Delays")
    person.see("reminder-1")
    person.see("reminder-2")
    person.click("main td a")
    person.see("remind me")


def watch_a_send_arrive(person: Person) -> None:
    person.click("nav a", "Live")
    person.see("Last look:")
    with grpc.insecure_channel(f"127.0.0.1:{person.page.served_port}") as channel:
        sent = MessagingServiceStub(channel).SendMessage(a_send(), metadata=METADATA, timeout=PATIENCE_S)
    assert sent.status.code == 20000, sent
    person.see("1 arrived since this page was opened.")
    person.click("#live-messages a")
    person.see(sent.entries[0].message_id)


def test_three_dead_letters_are_redriven_by_the_keyboard_alone(chrome: Chrome, page: Shown) -> None:
    from selenium.webdriver.common.keys import Keys

    person = Person(chrome, page, WIDE, "light")
    person.key_until("To the content").send_keys(Keys.ENTER)
    person.key_until("3 dead letters of mailer").send_keys(Keys.ENTER)
    person.see("3 dead letters, 3 not redriven.")
    person.key_until("choose all that are listed").send_keys(Keys.SPACE)
    person.driver.find_element("css selector", "body").send_keys("/")
    assert person.driver.switch_to.active_element.accessible_name == "Key of a message"
    person.key_until("Redrive the chosen ones").send_keys(Keys.ENTER)
    person.see("Redrive 3 dead letters of group mailer?")
    person.key_until("Redrive 3 dead letters").send_keys(Keys.ENTER)
    person.see("3 dead letters redriven.")
    assert len(page.store.redrive("mailer", dry_run=True)) == 0
    assert person.complaints() == []
    chrome.get("about:blank")


def test_a_message_that_stops_a_queue_is_skipped(chrome: Chrome, page: Shown) -> None:
    """The queue alone goes on behind it, as the question says."""
    from selenium.webdriver.support.ui import Select

    person = Person(chrome, page, NARROW, "light")
    person.click("main a", "billing")
    chrome.find_element("id", "reset-queue").send_keys("3")
    Select(chrome.find_element("id", "reset-to")).select_by_visible_text("an offset")
    chrome.find_element("id", "reset-offset").send_keys("5")
    person.click("button", "Reset offsets …")
    person.see("Reset the offsets of group billing in queue 3 of orders?")
    person.see("1 skipped")
    assert page.store.group_offsets("billing", "orders")[3] == 4, "it only asks"
    person.click("button", "Reset offsets")
    person.see("The offsets were reset.")
    assert page.store.group_offsets("billing", "orders") == {0: 50, 1: 50, 2: 50, 3: 5}
    assert person.complaints() == []
    chrome.get("about:blank")


@pytest.mark.parametrize(("width", "scheme"), [(NARROW, "dark"), (WIDE, "light")])
def test_every_view_can_be_read_and_named(chrome: Chrome, page: Shown, width: int, scheme: str) -> None:
    """Text has a contrast of 4.5, all that takes input has a name, and nothing is wider than the screen."""
    person = Person(chrome, page, width, scheme)
    [message] = page.store.get("mails", 0, 0, 1).messages
    names = {"/topic": "orders", "/group": "billing"}
    for path in READS.keys() - {"/body"}:
        query = f"name={names.get(path, '')}&group=mailer&at={message.physical_offset}&text=order"
        chrome.get(f"http://127.0.0.1:{page.port}{path}?{query}")
        person.see("writes are on")
        assert chrome.execute_script(CONTRAST) == [], path
        for each in chrome.find_elements("css selector", "a, button, select, input:not([type=hidden])"):
            assert each.accessible_name, f"{path}: {each.get_attribute('outerHTML')}"
        assert len(chrome.find_elements("css selector", "h1")) == 1, path
    assert person.complaints() == []
    chrome.get("about:blank")
