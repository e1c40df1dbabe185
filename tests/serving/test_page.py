"""The page at ``/`` in a real browser."""

import shutil

import pytest
from tiny_models import sentences

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DRIVER and CHROMIUM), reason="chromium or chromedriver is not installed"),
]
TEXTS = [sentences("en")[0], sentences("kk")[0], sentences("ug")[0], "<b>12</b>"]


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def says(browser, words):
    WebDriverWait(browser, 60).until(lambda _: words in browser.find_element(By.ID, "status").text)


def test_languages_and_heat_map_with_a_key(browser, server):
    browser.set_window_size(390, 844)
    browser.get(f"{server.url}/")
    box = browser.find_element(By.ID, "texts")
    box.clear()
    box.send_keys("\n".join(TEXTS), Keys.CONTROL, Keys.ENTER)
    says(browser, "This server asks for an API key.")
    key = browser.switch_to.active_element
    assert (key.get_attribute("id"), key.accessible_name) == ("key", "API key")
    key.send_keys("wrong", Keys.ENTER)
    says(browser, "The server does not know this key.")
    key.clear()
    key.send_keys("first-key", Keys.ENTER)
    says(browser, "4 sentences compared.")
    shown = [item.text.splitlines() for item in browser.find_elements(By.CSS_SELECTOR, "#languages li")]
    assert [item[0] for item in shown] == TEXTS
    assert [item[1].split(" (")[0] for item in shown[:3]] == ["English", "Kazakh", "Uyghur"]
    assert "encoded by" in shown[2][1]
    rows = [row.text.split() for row in browser.find_elements(By.CSS_SELECTOR, "tbody tr")]
    cosines = [row[2:] for row in rows]
    assert [row[place] for place, row in enumerate(cosines)] == ["1.00"] * 4
    assert cosines == [list(column) for column in zip(*cosines, strict=True)]
    wide = browser.execute_script("return document.documentElement.scrollWidth > innerWidth")
    assert not wide, "only the heat map scrolls sideways"


def test_nothing_is_loaded_from_elsewhere_and_nothing_fails(browser, server):
    browser.get_log("browser")
    browser.get(f"{server.url}/")
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in loaded if not name.startswith((server.url, "data:"))] == []
    browser.find_element(By.ID, "texts").clear()
    browser.find_element(By.ID, "texts").send_keys("only one")
    browser.find_element(By.ID, "go").click()
    says(browser, "Type two sentences or more, one a line.")
    assert browser.get_log("browser") == []
