"""The planner in a browser without a network: what it shows is what spdlib computes."""

import math
import random

import pytest
from mechanism_table import NOISES, noise

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

PAGES = "04_calibration", "08_release"
TOLERANCE = 1e-3  # what chapter 4 states of the interpolation
SET = """([name, share]) => {
  const slider = document.querySelector(`.planner [name=${name}]`);
  slider.value = +slider.min + share * (slider.max - slider.min);
  slider.dispatchEvent(new Event("input"));
}"""
CHOSEN = """Object.fromEntries([...document.querySelectorAll(".planner input")].map(slider =>
  [slider.name, +slider.parentNode.querySelector("output").textContent]))"""
ROWS = """[...document.querySelectorAll(".planner tbody tr")].map(row => ({
  best: row.classList.contains("survivor"),
  values: [...row.querySelectorAll("[data-part]")].map(cell => +cell.dataset.value),
}))"""


@pytest.fixture(params=[(page, width) for page in PAGES for width in (1280, 360)],
                ids=lambda param: f"{param[0]} at {param[1]} px")
def page(request, browser, site):
    name, width = request.param
    page = browser.new_page(viewport={"width": width, "height": 800}, offline=True)
    page.goto((site / f"book/{name}.html").as_uri())
    page.wait_for_selector(".planner:not([hidden])")
    yield page
    page.close()


def expected(k, n, radius, epsilon, delta):
    """Scale, mean distance and its 95% quantile for each noise, by spdlib and SciPy."""
    d, rows = k * (k + 1) // 2, []
    for name in NOISES:
        if name == "classical gaussian" and epsilon >= 1:
            rows.append((math.nan,) * 3)
            continue
        law = noise(name, 2 * radius / n, epsilon, delta, d).error(d)
        rows.append((law.kwds["scale"], law.mean(), law.ppf(0.95)))
    return rows


def test_every_number_is_that_of_spdlib_wherever_the_sliders_stand(page):
    generator = random.Random(page.url)
    corners = [(0,) * 5, (1,) * 5, (0, 1, 0, 1, 0), (1, 0, 1, 0, 1)]
    for shares in corners + [[generator.random() for _ in range(5)] for _ in range(20)]:
        for name, share in zip(("k", "n", "radius", "epsilon", "delta"), shares, strict=True):
            page.evaluate(SET, [name, share])
        at = page.evaluate(CHOSEN)
        truth = expected(int(at.pop("k")), **at)
        rows = page.evaluate(ROWS)
        for row, wanted in zip(rows, truth, strict=True):
            assert row["values"] == pytest.approx(wanted, rel=TOLERANCE, nan_ok=True), at
        means = [row["values"][1] for row in rows]
        best = min(mean for mean in means if not math.isnan(mean))
        assert [row["best"] for row in rows].count(True) == 1
        assert next(row for row in rows if row["best"])["values"][1] == best


def test_it_fits_the_page_and_names_every_slider(page):
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".planner").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    for slider in page.locator(".planner input").all():
        assert page.locator(f"label[for={slider.get_attribute('id')}]").text_content().strip()
        assert slider.get_attribute("aria-valuetext")


def test_a_key_moves_a_slider_and_the_answer_follows(page):
    before = page.locator(".planner tbody").inner_text()
    page.locator(".planner [name=epsilon]").press("ArrowLeft")
    assert page.locator(".planner tbody").inner_text() != before
