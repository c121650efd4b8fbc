"""Pages at several widths in headless Chromium: prints as JSON what does not fit, keeps a screenshot of each.

    python3 -m tests.browser.widths PLAN OUT     PLAN: JSON with `site` (a folder), `pages` (name → address) and `widths` (pixels)

The browser is the one of the tour beside it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.browser.tour import Tour

#: What a page must do without: scrolling sideways, tables of sentences that do, text of pictures outside them, words of
#: tables in pieces, charts wider than their place. Each is a list of what was seen.
_SCRIPT = """
const seen = [];
const wide = (one) => one.scrollWidth > one.clientWidth + 1;
if (wide(document.documentElement)) seen.push("the page scrolls sideways");
for (const one of document.querySelectorAll(".scroll")) {
  if (one.checkVisibility() && one.querySelector("table.stack, svg.received") && wide(one)) seen.push(`${one.ariaLabel} scrolls sideways`);
}
for (const svg of document.querySelectorAll("figure.vega svg, svg.received")) {
  const box = svg.getBoundingClientRect();
  if (box.width > svg.closest("figure, section").clientWidth + 1) seen.push(`a chart is ${box.width} px wide`);
  for (const text of svg.querySelectorAll("text")) {
    const at = text.getBoundingClientRect();
    const out = Math.max(box.left - at.left, at.right - box.right, box.top - at.top, at.bottom - box.bottom);
    // Labels that an axis has no room for are transparent.
    if (at.width && out > 1.5 && text.getAttribute("opacity") !== "0") seen.push(`'${text.textContent}' is cut by ${out.toFixed(0)} px`);
  }
}
for (const code of document.querySelectorAll("table.stack code")) {
  if (code.checkVisibility() && code.getClientRects().length > 1) seen.push(`${code.textContent} is in pieces`);
}
return [...new Set(seen)];
"""


def draw(tour: Tour, figure: Any) -> None:
    """Wait for a figure, which is drawn as it comes into view."""
    tour.driver.execute_script("arguments[0].scrollIntoView()", figure)
    tour.until(lambda driver: figure.get_attribute("data-drawn"), "a figure")


def main() -> None:
    plan, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    tour = Tour(Path(plan["site"]), {}, out)
    seen: dict[str, Any] = {}
    try:
        for width in plan["widths"]:
            tour.look((width, 900))
            for name, place in plan["pages"].items():
                tour.open(place)
                for figure in tour.all("figure.vega"):
                    draw(tour, figure)
                tour.driver.execute_script("scrollTo(0, 0)")
                time.sleep(0.2)
                tour.shot(f"{name}-{width}")
                seen[f"{name} at {width}"] = tour.driver.execute_script(_SCRIPT)
                badges = tour.texts(".badge")
                if badges:
                    seen.setdefault("badges", {})[f"{name} at {width}"] = badges
        tour.note()
    finally:
        tour.driver.quit()
    print(json.dumps({"seen": seen, "console": tour.console}))


if __name__ == "__main__":
    main()
