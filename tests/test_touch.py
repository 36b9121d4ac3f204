"""The figures to touch in a browser without a network: their numbers are those of spdlib."""

import math

import numpy as np
import pytest
from conftest import ROOT, cells_of
from scipy.special import erfcx
from scipy.stats import norm

from spdlib import Ball, FrechetMean, TangentGaussian, distance_logeuclid, expm, invvecd, logm, vecd
from spdlib.calibration import gaussian_delta, gdp_mu
from spdlib.spaces import Sphere
from spdlib.spaces.ball import project_to_ball

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

PAGES = {"odds": "00_opening", "loss": "03_privacy_loss", "leap": "18_frechet_means"}
DELTA = 1e-6  # the opening's
SET = """([name, value]) => {
  const slider = document.querySelector(`.touch [name=${name}]`);
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
}"""
# Sections far from the window, too, have their place
LAID_OUT = "article > section > section { content-visibility: visible !important; }"
# The background of what is behind a drawing, and the colours that are drawn on it
CONTRAST = """() => {
  const parts = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(part => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = colour => {
    const [r, g, b] = parts(colour);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll(".touch svg text")].map(text => {
    const ink = light(getComputedStyle(text).fill);
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  });
}"""
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".touch svg text")].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""


@pytest.fixture
def opened(browser, site):
    """Opens the page of a figure, from its file; all errors of scripts fail the test."""
    pages, faults = [], []

    def opened(name, width=1280, **options):
        page = browser.new_page(viewport={"width": width, "height": 900}, offline=True, **options)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((site / f"book/{PAGES[name]}.html").as_uri())
        pages.append(page)
        if options.get("java_script_enabled", True):
            page.wait_for_selector(".touch:not([hidden])")
            page.add_style_tag(content=LAID_OUT)
        return page

    yield opened
    for page in pages:
        page.close()
    assert faults == []


def words(page, number=0):
    return page.locator(".touch [role=status]").nth(number).text_content()


def test_delta_is_that_of_spdlib_also_in_the_far_tail(opened):
    page = opened("loss")
    x = np.arange(-8, 60, 0.37)
    mills = page.evaluate("all => all.map(touch.mills)", x.tolist())
    assert mills == pytest.approx(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)), rel=1e-12)
    assert page.evaluate("all => all.map(touch.normal)", x.tolist()) == pytest.approx(
        norm.cdf(x), rel=1e-12)
    for epsilon in (0, 0.05, 0.5, 1, 3, 8):
        for mu in (0.21, 0.5, 1, 2, 6.3):
            found = page.evaluate("at => touch.loss.promise(...at)", [epsilon, mu])
            truth = gaussian_delta(1, epsilon, mu)
            assert math.exp(found["logDelta"]) == pytest.approx(truth, rel=1e-9, abs=1e-300)
            assert found["alpha"] == pytest.approx(norm.sf(found["c"]), rel=1e-12)
            assert found["beta"] == pytest.approx(norm.cdf(found["c"] - mu), rel=1e-12)
            # the point of the curve where the tangent that meets the axis at 1 − δ touches
            line = 1 - truth - math.exp(epsilon) * found["alpha"]
            assert found["beta"] == pytest.approx(line, abs=1e-9)


def test_the_sliders_of_the_loss_show_delta(opened):
    page = opened("loss")
    assert f"δ = {gaussian_delta(1, 1, 1):.4g}:" in words(page)
    page.evaluate(SET, ["epsilon", 2])
    page.evaluate(SET, ["mu", math.log10(3)])
    assert f"δ = {gaussian_delta(1, 2, 3):.4g}:" in words(page)


def recorded_mean():
    """The mean of all patients (µV²) as the opening's table shows it."""
    texts = (text for cell in cells_of(ROOT / "book/00_opening.ipynb")
             for output in cell.get("outputs", ())
             for text in "".join(output.get("data", {}).get("text/plain", "")).splitlines())
    line = next(text for text in texts if text.startswith("mean of all"))
    first, second, beside = map(float, line.split()[-3:])
    return [[first, beside], [beside, second]]


@pytest.mark.parametrize("epsilon, n", [(0.1, 20), (1, 200), (5, 2000), (20, 50), (100, 10_000)])
def test_releases_and_attacks_are_those_of_spdlib(epsilon, n, opened):
    page = opened("odds")
    study = page.evaluate("touch.odds.study")
    assert study["mean"] == recorded_mean()
    ada, mean = np.array(study["ada"]), np.array(study["mean"])
    ball = Ball.from_bounds(*(bound**2 for bound in study["bounds"]), k=2)
    noise = np.array(page.evaluate("touch.odds.draws(1)"))
    assert noise.shape == (30, 3) and abs(noise.mean()) < 0.4 and abs(noise.std() - 1) < 0.3
    found = page.evaluate("at => touch.odds.release(...at, touch.odds.draws(1))", [epsilon, n])

    mechanism = TangentGaussian.of(FrechetMean(np.broadcast_to(ada, (n, 2, 2)), ball), epsilon,
                                   DELTA)
    assert found["mu"] == pytest.approx(gdp_mu(epsilon, DELTA), rel=1e-9)
    assert found["sigma"] == pytest.approx(mechanism.sigma, rel=1e-9)
    assert found["right"] == pytest.approx(norm.cdf(mechanism.mu / 2), rel=1e-9)
    origin, exact = vecd(logm(ball.center)), vecd(logm(mean))
    noisy = exact + mechanism.sigma * noise - origin
    published = expm(invvecd(origin + project_to_ball(noisy, ball.radius)))
    known = n * exact - vecd(logm(ada))
    left_over = n * vecd(logm(published)) - known - origin
    guesses = expm(invvecd(origin + project_to_ball(left_over, ball.radius)))
    for name, X, goal in (("mean", published, mean), ("guess", guesses, ada)):
        factor = np.exp(np.median(distance_logeuclid(X, goal)) / 2)
        assert found[f"{name}Factor"] == pytest.approx(factor, rel=1e-6)


def test_more_patients_help_the_mean_and_not_the_outsider(opened):
    page = opened("odds")
    few, more = (page.evaluate("n => touch.odds.release(1, n, touch.odds.draws(1))", n)
                 for n in (100, 1000))
    assert few["right"] == more["right"] and more["meanFactor"] < few["meanFactor"]
    assert f"{100 * few['right']:.1f}%" in words(page)
    before = page.locator(".touch svg").first.inner_html()
    page.get_by_role("button", name="thirty other draws").press("Enter")
    assert page.locator(".touch svg").first.inner_html() != before


def test_means_on_the_circle_are_the_lowest_of_all(opened):
    page, rng = opened("leap"), np.random.default_rng(0)
    circle, grid = Sphere(1), np.linspace(-np.pi, np.pi, 20_001)

    def at(angles):
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    for count in (2, 3, 5, 8, 20):
        records = rng.uniform(-np.pi, np.pi, count)
        mean = page.evaluate("touch.means.circleMean", records.tolist())
        energy = (circle.dist(at(np.append(grid, mean))[:, None], at(records)) ** 2).sum(axis=1)
        assert energy[-1] <= energy.min() + 1e-9


def test_means_on_the_sphere_are_those_of_spdlib(opened):
    page, rng = opened("leap"), np.random.default_rng(0)
    sphere, pole = Sphere(2), np.array([0.0, 0, 1])
    grid = rng.standard_normal((20_000, 3))
    grid /= np.linalg.norm(grid, axis=1, keepdims=True)
    for _ in range(20):
        points, weights = grid[rng.choice(20_000, 3)], rng.integers(1, 6, 3)
        data = [[x.tolist(), int(weight)] for x, weight in zip(points, weights, strict=True)]
        mean = np.array(page.evaluate("touch.means.sphereMean", data))
        energy = sphere.dist(np.vstack([grid, mean])[:, None], points) ** 2 @ weights
        assert energy[-1] <= energy.min() + 1e-9
    for radius in (0.3, 1.0, 1.4):  # in one ball, where there is one mean
        steps = rng.standard_normal((4, 2))
        steps *= radius / np.linalg.norm(steps, axis=1, keepdims=True)
        data = [[x.tolist(), 1] for x in sphere.exp(pole, steps)]
        mean = np.array(page.evaluate("touch.means.sphereMean", data))
        truth = sphere.exp(pole, sphere.mean(pole, steps, 1e-10))
        assert sphere.dist(mean, truth) < 1e-8


@pytest.mark.parametrize("n", [3, 5, 21])
@pytest.mark.parametrize("degrees", [10, 40, 80])
def test_a_record_that_crosses_the_ball_moves_the_mean_as_far_as_is_promised(n, degrees, opened):
    page, s = opened("leap"), math.radians(degrees)
    moved = "([n, s, x]) => touch.means.moved(touch.means.circle, n, s, x)"
    found = page.evaluate(moved, [n, s, s])
    assert found["far"] == pytest.approx(2 * s / n, rel=1e-9)
    moved = moved.replace("circle", "sphere")
    found = page.evaluate(moved, [n, s, [0, math.sin(s), math.cos(s)]])
    assert 2 * s / n < found["far"] <= 2 * math.tan(s) / n == pytest.approx(found["bound"][1])


@pytest.mark.parametrize("number, space", [*enumerate(["circle", "sphere"])])
def test_keys_take_the_record_round_and_the_mean_leaps(number, space, opened):
    page = opened("leap")
    handle = page.get_by_role("slider", name=f"record on the {space}")
    handle.focus()
    # from the left and from below through the antipode of the mean, without a pointer
    back = "ArrowLeft" if space == "circle" else "ArrowDown"
    leaps = []
    for _ in range(70):
        handle.press(back)
        if "leapt" in words(page, number):
            leaps.append(words(page, number))
    assert len(leaps) == 1 and "no bound" in leaps[0]
    assert handle.get_attribute("aria-valuetext")
    handle.press("Home")
    assert "moved by 0.000" in words(page, number)


@pytest.mark.parametrize("number, space", [*enumerate(["circle", "sphere"])])
def test_a_pointer_drags_the_record(number, space, opened):
    page = opened("leap", width=390, has_touch=True)
    dot = page.locator(".touch .handle").nth(number)
    dot.scroll_into_view_if_needed()
    svg = page.locator(".touch svg").nth(number).bounding_box()
    box = dot.locator(".dot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(svg["x"] + svg["width"] / 2, svg["y"] + svg["height"] / 2 - 20)
    page.mouse.up()
    said = words(page, number)
    assert "moved by 0.000" not in said
    page.mouse.move(svg["x"], svg["y"])  # it was let go
    assert words(page, number) == said


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_it_can_be_read_and_named_in_both_modes_and_on_a_phone(name, width, scheme, opened):
    page = opened(name, width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".touch").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    texts = page.evaluate(CONTRAST)
    if texts:
        assert min(texts) >= 4.5 and page.evaluate(SMALLEST) > 11
    for slider in page.locator(".touch input").all():
        assert page.locator(f"label[for={slider.get_attribute('id')}]").text_content().strip()
        before = slider.get_attribute("aria-valuetext")
        slider.press("ArrowRight")
        slider.press("ArrowRight")
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") != before
    assert all(label for label in page.eval_on_selector_all(
        ".touch svg[role], .touch [role=slider]", "all => all.map(x => x.ariaLabel)"))
    ids = page.eval_on_selector_all(".touch [id]", "all => all.map(node => node.id)")
    assert len(ids) == len({*ids})


@pytest.mark.parametrize("name, figure", [("odds", "fig-odds"), ("loss", "fig-loss-area"),
                                          ("leap", "fig-circle")])
def test_without_a_script_the_picture_stays(name, figure, opened):
    page = opened(name, java_script_enabled=False)
    assert page.locator(".touch").is_hidden()
    picture = page.locator(f"#{figure} img")
    picture.scroll_into_view_if_needed()
    assert picture.is_visible()


def test_a_page_loads_the_scripts_of_its_figure_only(site):
    for name, page in PAGES.items():
        text = (site / f"book/{page}.html").read_text(encoding="utf-8")
        assert [other for other in PAGES if f"touch-{other}.js" in text] == [name]
        assert "planner.js" not in text
