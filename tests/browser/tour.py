"""A tour of the site in headless Chromium, in the browser's container: prints what it saw as JSON, keeps screenshots.

    tour.py PLAN OUT     PLAN: JSON with `site` (a folder), `cells` (name → address of its page); OUT: a folder for the screenshots

Everything is looked at through the page, as a person does: nothing of the site's code is known here but its labels.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axe_selenium_python import Axe
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

#: Pixels: a desk's screen, a phone's, and a desk's at 400 % (WCAG 2.2, 1.4.10).
DESK, PHONE, ZOOMED = (1280, 900), (390, 844), (320, 256)
#: How long anything may take, s.
PATIENCE = 120.0
#: What axe-core calls these is a fault that people cannot get around.
SERIOUS = ("serious", "critical")


#: Many at a time: a question a cell takes longer than the page.
_SEEN = "const seen = (css) => [...document.querySelectorAll(css)].filter((one) => one.checkVisibility());"


def browser() -> Any:
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    # A machine at work is slow, not broken.
    chrome.set_script_timeout(PATIENCE)
    chrome.set_page_load_timeout(PATIENCE)
    return chrome


class Tour:
    """One browser, and what was seen in it."""

    def __init__(self, site: Path, cells: dict[str, str], out: Path) -> None:
        self.driver, self.site, self.cells, self.out = browser(), site, cells, out
        self.seen: dict[str, Any] = {}
        self.requests: list[str] = []
        self.console: list[str] = []

    # --- the browser

    def look(self, size: tuple[int, int], *, dark: bool = False, grey: bool = False) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        vision = {"type": "achromatopsia" if grey else "none"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedVisionDeficiency", vision)

    def open(self, place: str) -> None:
        # From a blank page: an address that differs behind the # alone would load nothing.
        self.driver.get("about:blank")
        self.driver.get(f"file://{self.site}/{place}")
        # What is packed is there a moment later.
        self.until(lambda driver: not self.all("#cell > [role=status]"), "the page")

    def until(self, seen: Callable[[Any], Any], what: str, seconds: float = PATIENCE) -> Any:
        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(seen, what)

    def find(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[Any]:
        """Those that are there to be seen."""
        return list(self.driver.execute_script(f"{_SEEN} return seen(arguments[0])", css))

    def texts(self, css: str) -> list[str]:
        script = f"{_SEEN} return seen(arguments[0]).map(one => one.textContent.trim())"
        return list(self.driver.execute_script(script, css))

    def means(self) -> list[float]:
        """Of each row of the heat maps in sight, from what its cells say; infinite of one without figures."""
        rows = self.driver.execute_script(
            f"{_SEEN} return seen('table.heat tbody tr').map(row => [...row.querySelectorAll('a span:last-child')]"
            ".map(one => parseFloat(one.textContent)).filter(one => !isNaN(one)))"
        )
        return [round(sum(row) / len(row), 3) if row else math.inf for row in rows]

    def shot(self, name: str) -> None:
        self.driver.save_screenshot(str(self.out / f"{name}.png"))

    def choose(self, name: str, value: str) -> None:
        select = Select(self.find(f"#filters [name={name}]"))
        try:
            select.select_by_value(value)
        except NoSuchElementException:
            select.select_by_visible_text(value)

    def hash(self) -> str:
        return str(self.driver.execute_script("return decodeURIComponent(location.hash)"))

    def fits(self) -> bool:
        """Whether nothing of the page but what scrolls by itself is wider than the window."""
        script = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        return bool(self.driver.execute_script(script))

    def faults(self, *, colours: bool = False) -> list[str]:
        """What axe-core finds serious on the page; of its colours alone, where all else was looked at before."""
        # It looks at nothing that is hidden, but takes its time to find that out.
        self.driver.execute_script(
            "for (const one of document.querySelectorAll('.map[hidden], tr[hidden]')) one.remove()"
        )
        axe = Axe(self.driver)
        axe.inject()
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if colours:
            options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
        # It is put into the script as it stands.
        violations = axe.run(options=json.dumps(options))["violations"]
        return [
            f"{violation['id']}: {violation['help']}: {violation['nodes'][0]['html'][:200]}"
            for violation in violations
            if violation["impact"] in SERIOUS
        ]

    def note(self) -> None:
        """Take what the browser said and asked for since the last time."""
        self.console += [line["message"] for line in self.driver.get_log("browser") if line["level"] != "INFO"]
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"][:200])

    # --- the stops

    def first_view(self) -> None:
        self.look(DESK)
        script = (
            "const paint = performance.getEntriesByName('first-contentful-paint')[0];"
            "const end = performance.getEntriesByType('navigation')[0].loadEventEnd;"
            "return paint && end ? Math.max(paint.startTime, end) : null"
        )
        times = []
        for _ in range(5):
            self.open("index.html")
            times.append(self.until(lambda driver: driver.execute_script(script), "the first paint"))
        # The best: what else the machine does at the moment is not the page's doing.
        self.seen["first_view_ms"] = min(times)
        self.seen["title"] = self.driver.title
        self.shot("overview")

    def filters(self) -> None:
        every = self.find("#count").text
        self.choose("scenario", "satellite/medium")
        self.choose("engine", "virtual")
        self.choose("server", "picoquic")
        self.seen["count"] = [every, self.find("#count").text]
        self.seen["maps"] = self.texts("section.map h2")
        self.seen["tiles"] = len(self.all("section.map table.heat a:not(.off)"))
        self.find("#verdicts button[value=pass]").click()
        self.seen["passing"] = self.find("#count").text
        self.seen["address"] = self.hash()
        self.shot("filtered")
        # Sent to a colleague, the address shows the same.
        self.driver.refresh()
        self.seen["reloaded"] = [self.find("#count").text, self.hash()]
        self.find("#reset").click()
        self.seen["reset"] = self.find("#count").text
        self.choose("parameter", "server.initial_cwnd=100")
        self.seen["parameter"] = [self.find("#count").text, self.texts("section.map h2")]
        self.find("#reset").click()
        self.choose("scenario", "studies/start")
        named = self.means()
        self.choose("rows", "low")
        self.seen["rows"] = [named, self.means()]

    def order(self) -> None:
        self.open("index.html#view=table&scenario=satellite/medium&engine=virtual")
        head = self.find("th[data-sort=figure] button")
        figures = []
        for _ in range(2):
            head.click()
            figures.append([text.split()[0] for text in self.texts("#list tbody td.figure")])
        self.seen["sorted"] = figures
        self.seen["aria_sort"] = self.find("th[data-sort=figure]").get_attribute("aria-sort")
        self.seen["sort_address"] = self.hash()
        self.shot("table")

    def cell(self) -> None:
        """From the overview to a cell, and on to its evidence."""
        self.open("index.html#scenario=satellite/medium&engine=virtual&verdict=pass")
        self.all("section.map table.heat a:not(.off)")[0].click()
        self.until(lambda driver: self.all(".lead .v"), "the page of the cell")
        self.seen["cell"] = [self.find("h1").text, self.find(".lead .v").text, len(self.all(".scale .dot"))]
        self.shot("cell")
        self.find("details.packed.figures summary").click()
        self.until(lambda driver: len(self.all("details.figures tbody tr")) > 10, "the table of figures")
        self.seen["metrics"] = len(self.all("details.figures tbody tr"))
        self.driver.find_element(By.PARTIAL_LINK_TEXT, "Evidence").click()
        target = self.find(":target")
        self.seen["evidence"] = [target.text, target.is_displayed(), len(self.all("tr[id^=run-]"))]

    def absent(self) -> None:
        """A cell that somebody's address asks for and that is not here, of a scenario that is."""
        self.driver.get(f"file://{self.site}/{self.cells['pass'].rpartition('/')[0]}/0123456789abcdef")
        self.until(lambda driver: "No such cell" in self.find("#cell").text, "that there is none")

    def figures(self) -> None:
        """A run with series: its figures are drawn, in the colours of a dark page, too."""
        for dark in (False, True):
            self.look(DESK, dark=dark)
            self.open(self.cells["series"])
            self.until(lambda driver: self.all("figure.vega svg"), "a figure")
            self.driver.execute_script("arguments[0].scrollIntoView()", self.find("#overtime"))
            time.sleep(0.3)
            self.shot(f"figures-{'dark' if dark else 'light'}")
        self.seen["figures"] = len(self.driver.find_elements(By.CSS_SELECTOR, "figure.vega"))
        self.seen["curves"] = len(self.driver.find_elements(By.CSS_SELECTOR, "figure.vega svg path"))
        self.look(DESK)

    def stored(self) -> None:
        """A run with its artefacts: links to its folder and to a qlog, in the viewer."""
        self.open("stored/index.html")
        self.all("section.map table.heat a")[0].click()
        self.until(lambda driver: self.all("tr[id^=run-]"), "the page of the cell")
        links = self.all("tr[id^=run-] td:last-child a")
        self.seen["kept"] = [link.text for link in links]
        next(link for link in links if link.text == "record").click()
        self.seen["record"] = self.find("body").text
        self.driver.back()
        self.until(lambda driver: self.all("tr[id^=run-]"), "the page of the cell")
        self.driver.find_element(By.PARTIAL_LINK_TEXT, "qlog of flow0 server").click()
        self.until(lambda driver: self.all("#events tbody tr"), "events")
        self.seen["qlog"] = [self.find("h1").text, self.find("#count").text]
        Select(self.find("#search [name=kind]")).select_by_index(1)
        self.seen["qlog_kind"] = [self.find("#count").text, self.all("#events tbody tr")[0].text]
        self.shot("qlog")

    def interop(self) -> None:
        """The matrix of test cases: one of them alone, and from a pair's to its cell."""
        self.open("interop.html")
        every = len(self.all(".interop li"))
        Select(self.find("#case select")).select_by_value("S")
        self.seen["interop"] = [every, self.texts(".interop li")]
        self.shot("interop")
        self.all(".interop li a")[0].click()
        self.until(lambda driver: self.all(".crumbs"), "the page of the cell")
        self.seen["interop_cell"] = self.texts(".crumbs")

    def keyboard(self) -> None:
        """What the tabulator reaches from the top, and that it is enough to choose a verdict and open a cell."""
        self.open("index.html#scenario=satellite/medium&engine=virtual")
        body = self.driver.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        reached = []
        for _ in self.all("a, button, input, select"):  # each once at most
            focused = self.driver.switch_to.active_element
            reached.append(focused.get_attribute("name") or focused.text.split("\n")[0])
            if focused.get_attribute("value") == "pass" and focused.get_attribute("aria-pressed") == "false":
                focused.send_keys(Keys.SPACE)
            if focused.get_attribute("data-k"):
                focused.send_keys(Keys.ENTER)
                break
            focused.send_keys(Keys.TAB)
        self.seen["keyboard"] = reached
        self.seen["by_keyboard"] = self.driver.current_url.rpartition("/site/")[2].split("?")[0]

    def access(self) -> None:
        """axe-core on a page of each kind, and widths that must do without scrolling sideways."""
        pages = {
            "overview": "index.html#scenario=satellite/medium", "table": "index.html#view=table&scenario=satellite/medium",
            "cell": self.cells["pass"], "crashed": self.cells["error"],
            "series": self.cells["series"], "implementation": "implementations/curl.html",
            "implementations": "implementations/index.html", "studies": "studies/index.html",
            "study": "studies/in_sequence_satellite.html", "metrics": "studies/metrics.html", "qlog": "stored/qlog.html",
            "interop": "interop.html", "changes": "night/changes.html", "trend": "night/trend.html",
        }  # fmt: skip
        faults, wide, spent = {}, [], {}
        for name, place in pages.items():
            # The same style colours them all.
            for dark in (
                (False, True)
                if name in ("overview", "cell", "series", "implementations", "study", "changes", "trend")
                else (False,)
            ):
                self.look(DESK, dark=dark)
                self.open(place)
                if name in ("series", "trend"):
                    self.until(lambda driver: self.all("figure.vega svg"), "a figure")
                begin, which = time.monotonic(), f"{name} {'dark' if dark else 'light'}"
                faults[which] = self.faults(colours=dark)
                spent[which] = round(time.monotonic() - begin, 1)
            for size in (PHONE, ZOOMED):
                self.look(size)
                if not self.fits():
                    wide.append(f"{name} at {size[0]}")
        self.seen["axe"] = spent
        self.seen["faults"] = {name: violations for name, violations in faults.items() if violations}
        self.seen["looked_at"] = len(faults)
        self.seen["wide"] = wide

    def pictures(self) -> None:
        for name, size, place, looks in (
            ("dark", DESK, "index.html#scenario=satellite/", {"dark": True}),
            ("grey", DESK, "index.html#scenario=interop/medium-10mb", {"grey": True}),
            ("phone", PHONE, "index.html#scenario=satellite/medium", {}),
            ("phone-cell", PHONE, self.cells["pass"], {}),
            ("zoomed", ZOOMED, self.cells["pass"], {}),
            ("implementation", DESK, "implementations/picoquic.html", {}),
            ("study", DESK, "studies/in_sequence_satellite.html", {}),
            ("readme", (1280, 860), "index.html#scenario=interop/medium-10mb", {}),
        ):
            self.look(size, **looks)
            self.open(place)
            self.shot(name)


def main() -> None:
    plan, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    tour = Tour(Path(plan["site"]), plan["cells"], out)
    spent = {}
    try:
        for stop in (
            tour.first_view, tour.filters, tour.order, tour.cell, tour.absent, tour.figures, tour.stored,
            tour.interop, tour.keyboard, tour.access, tour.pictures,
        ):  # fmt: skip
            begin = time.monotonic()
            stop()
            tour.note()
            spent[stop.__name__] = round(time.monotonic() - begin, 1)
    finally:
        tour.driver.quit()
    print(json.dumps({**tour.seen, "console": tour.console, "requests": sorted(set(tour.requests)), "spent": spent}))


if __name__ == "__main__":
    main()
