"""The site in a browser that is cut off from all other hosts."""

import collections
import functools
import http.server
import inspect
import json
import re
import threading
import urllib.parse

import pytest
from conftest import CHAPTERS, ROOT

import spdlib

# one worker: one browser and one visit of each page serve them all
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

# What a page shows once its maths is set: TeX that is left, links, ids, images without alt text,
# figures with their size in the file and on the page, icons that nothing draws, and what the page
# waits for before it shows.
SHOWN = r"""async () => {
  await window.setAllFormulas?.();
  await document.fonts.ready;
  const all = selector => [...document.querySelectorAll(selector)];
  const figures = all("figure img");
  figures.forEach(image => image.loading = "eager");
  await Promise.all(figures.map(image => image.decode()));
  const unset = all("article .math").filter(node => !node.querySelector("mjx-container"));
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const raw = [];
  while (walk.nextNode()) {
    const {data, parentElement} = walk.currentNode;
    const tex = /\\[([]|\$\$|\$\\|\\(frac|operatorname|mathrm)/.test(data);
    if (tex && !parentElement.closest("pre, code, script, style")) raw.push(parentElement);
  }
  return {
    tex: [...unset, ...all("mjx-merror"), ...raw].map(node => node.textContent.trim().slice(0, 80)),
    links: all("a[href]").map(link => new URL(link.getAttribute("href"), document.baseURI).href),
    ids: all("[id]").map(node => node.id),
    images: all("img:not([alt])").map(image => image.src),
    figures: figures.map(({naturalWidth, naturalHeight, width, height, src}) =>
      ({naturalWidth, naturalHeight, width, height, src})),
    icons: all("[class*=' fa-']").filter(icon => getComputedStyle(icon).maskImage === "none")
      .map(icon => icon.className),
    blocking: all("head :is(script[src]:not([defer]), link[rel=stylesheet])")
      .filter(node => !node.async).map(node => node.src ?? node.href),
  };
}"""
# What stands in a box that neither holds it nor scrolls.
CUT = """[...document.querySelectorAll("article :is(.math.set, pre, table, .output)")]
  .filter(node => node.scrollWidth > node.clientWidth + 1)
  .filter(node => /hidden|clip/.test(getComputedStyle(node).overflowX))
  .map(node => node.textContent.trim().slice(0, 80))"""
BRIGHTNESS = """() => getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3)
  .reduce((sum, part) => sum + +part, 0)"""
LOOK = """image => [getComputedStyle(image).backgroundColor, getComputedStyle(image).filter]"""
VISIBLE = "rows => rows.filter(row => row.checkVisibility()).map(row => row.id)"


@pytest.fixture(scope="session")
def rows(site):
    """Rows of ledger.json."""
    return json.loads((site / "ledger.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def address(site):
    """The site's address on a server of its own."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="session")
def visitor(browser):
    """Makes a page as a new reader has it.

    Its `faults` are errors, what does not load and what it asks of other hosts.
    """

    def visitor(home, context=None, **options):
        page = (context or browser.new_context(**options)).new_page()
        page.faults = []

        def console(message):
            if message.type == "error":
                page.faults.append(message.text)

        def request(request):
            if not request.url.startswith((home, "data:", "blob:")):
                page.faults.append(request.url)

        def response(response):
            if not response.ok:
                page.faults.append(f"{response.url}: {response.status}")

        def lost(request):
            if request.failure != "net::ERR_ABORTED":  # by the page's leaving
                page.faults.append(f"{request.url}: {request.failure}")

        page.on("console", console)
        page.on("request", request)
        page.on("response", response)
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("requestfailed", lost)
        return page

    return visitor


@pytest.fixture(scope="session")
def visits(site, address, visitor, browser):
    """What each page of the site shows on a first visit: a dict from its path to a dict."""
    shown, context = {}, browser.new_context()
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if "_static" in name or name == "index.html":
            continue
        page = visitor(address, context)
        page.goto(f"{address}/{name}")
        shown[name] = page.evaluate(SHOWN) | {"faults": page.faults, "sideways": []}
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 844})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                shown[name]["sideways"].append(width)
        shown[name]["cut"] = page.evaluate(CUT)
        page.evaluate("localStorage.clear()")
        page.close()
    return shown


def per_page(visits, key):
    return {name: shown[key] for name, shown in visits.items() if shown[key]}


def test_the_tests_of_a_group_share_a_worker(request):
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@site"), "this pytest ignores the groups of xdist"


def test_every_chapter_has_its_page_and_its_download(site, visits):
    for chapter in CHAPTERS:
        links = visits[f"book/{chapter.stem}.html"]["links"]
        assert any(link.endswith(f"/_sources/book/{chapter.name}") for link in links)
        download = site / f"_sources/book/{chapter.name}"
        assert download.read_bytes() == chapter.read_bytes()


def test_the_api_page_has_every_exported_name(visits):
    public = {f"spdlib.{name}" for name, value in vars(spdlib).items()
              if not name.startswith("_") and not inspect.ismodule(value)}
    assert public <= {*visits["book/api.html"]["ids"]}


def test_no_page_logs_an_error_or_asks_another_host(visits):
    assert per_page(visits, "faults") == {}


def test_all_maths_is_set(visits):
    assert per_page(visits, "tex") == {}


def test_a_print_has_all_formulas(address, visitor):
    page = visitor(address)
    page.goto(f"{address}/book/06_utility.html")
    page.wait_for_selector("mjx-container")
    assert page.locator(".math:not(.set)").count() > 10  # far from the window
    page.pdf()
    assert page.locator(".math:not(.set)").count() == 0 and page.faults == []


def test_every_image_has_alt_text(visits):
    assert per_page(visits, "images") == {}


def test_no_page_scrolls_sideways(visits):
    assert per_page(visits, "sideways") == {}


def test_no_formula_is_cut_off_on_a_phone(visits):
    assert per_page(visits, "cut") == {}


def test_every_internal_link_leads_somewhere(site, address, visits):
    broken = []
    for name, shown in visits.items():
        for link in filter(lambda link: link.startswith(address), shown["links"]):
            parts = urllib.parse.urlsplit(link)
            path, fragment = parts.path.lstrip("/"), urllib.parse.unquote(parts.fragment)
            ids = visits[path]["ids"] if path in visits else []
            if not (site / path).is_file() or fragment and fragment not in ids:
                broken.append(f"{name}: {link}")
    assert broken == []


def test_no_id_stands_twice_on_the_ledger_page(visits):
    ids = visits["book/ledger.html"]["ids"]
    assert sorted(ids) == sorted(set(ids))


def test_a_page_of_the_book_waits_for_one_style_sheet_only(address, visits):
    sheet = f"{address}/_static/site.css"
    shown = {name: page["blocking"] for name, page in visits.items() if name.startswith("book/")}
    assert shown == {name: [sheet] for name in shown}


def test_every_icon_is_drawn(visits):
    assert per_page(visits, "icons") == {}


def test_figures_are_at_most_six_inches_wide_and_keep_their_shape(visits):
    for name, shown in visits.items():
        for figure in shown["figures"]:
            assert figure["naturalWidth"] <= 864, (name, figure)  # at 144 dots an inch
            drawn = figure["width"] / figure["height"]
            # the white box of a picture in dark mode is a few pixels wider than it
            assert abs(drawn / (figure["naturalWidth"] / figure["naturalHeight"]) - 1) < 0.02, name


def test_the_code_of_a_folded_cell_stands_below_what_it_shows(address, visitor):
    page = visitor(address)
    page.goto(f"{address}/book/06_utility.html")
    last = """cells => cells.map(cell => cell.lastElementChild.querySelector(":scope > summary")
      ?.textContent)"""
    folds = page.eval_on_selector_all(".cell.tag_hide-input", last)
    assert all(fold.startswith("the code of ") for fold in folds), folds
    figures = page.eval_on_selector_all("figure .caption-number", "all => all.length")
    assert sum("Fig. 6." in fold for fold in folds) == figures
    checks = re.findall("[A-Z]{2}-[0-9]+", " ".join(fold for fold in folds if "checks" in fold))
    claims = page.locator(".claim > p > a").all_text_contents()
    assert sorted(checks) == sorted({*claims})
    page.focus("details.code > summary")
    page.keyboard.press("Enter")
    assert page.locator("details.code pre").first.is_visible() and page.faults == []


def test_the_front_door_leads_to_the_first_page(address, visitor):
    root = re.search(r"^root: (\S+)\.", (ROOT / "_toc.yml").read_text(encoding="utf-8"), re.M)[1]
    page = visitor(address)
    page.goto(f"{address}/index.html")
    page.wait_for_url(f"**/{root}.html")
    page.wait_for_load_state()
    assert page.faults == []


@pytest.mark.parametrize("over", ["http", "file"])
def test_a_link_opens_the_claim_that_it_points_at(over, site, address, visitor, rows):
    home = {"http": address, "file": site.as_uri()}[over]
    wide = next(row for row in rows if row["id"] == "PP-04")
    page = visitor(home, viewport={"width": 360, "height": 800})
    page.goto(f"{home}/book/ledger.html#ledger-PP-04")
    assert page.eval_on_selector_all(".claim-line[open]", "all => all.map(line => line.id)") == [
        "ledger-PP-04"]
    page.wait_for_selector("#ledger-PP-04 mjx-container")
    unset = "all => all.filter(node => node.querySelector('mjx-container')).length"
    assert page.eval_on_selector_all("#ledger-TG-48 .math", unset) == 0  # is set when it opens
    assert page.locator("#ledger-PP-04 .phrase").inner_text() == wide["title"]
    assert page.evaluate(CUT) == [] and page.faults == []


def test_the_errata_have_every_claim_that_does_not_stand_as_printed(address, visitor, rows):
    wrong = {f"erratum-{row['id']}" for row in rows if row["verdict"] in ("corrected", "fails")}
    page = visitor(address)
    page.goto(f"{address}/book/errata.html")
    ids = page.eval_on_selector_all(".erratum", "all => all.map(line => line.id)")
    assert sorted(ids) == sorted(wrong)
    assert page.locator(".erratum[open]").count() == 0
    sentences = page.locator(".erratum .phrase").all_text_contents()
    assert all(sentences) and page.faults == []


def test_the_verdicts_that_are_drawn_are_those_of_the_ledger(address, visitor, rows):
    page = visitor(address, viewport={"width": 360, "height": 800})
    page.goto(f"{address}/book/ledger.html")
    counts = collections.Counter((row["id"][:2], row["verdict"]) for row in rows)
    for mark in ".verdicts svg a", ".verdicts td a":
        drawn = {}
        for link in page.locator(mark).all():
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(link.get_attribute("href")).query)
            number = link.locator("text") if "svg" in mark else link
            drawn[query["paper"][0], query["verdict"][0]] = int(number.text_content())
        assert drawn == counts
    paper, verdict = rows[-1]["id"][:2], "holds"
    page.goto(f"{address}/book/ledger.html?paper={paper}&verdict={verdict}")
    assert page.eval_on_selector_all(".claim-line", VISIBLE) == [
        f"ledger-{row['id']}" for row in rows
        if row["id"].startswith(paper) and row["verdict"] == verdict]
    assert page.faults == []


@pytest.mark.parametrize("over", ["http", "file"])
def test_the_ledger_filters_as_its_json_says(over, site, address, visitor, rows):
    home = {"http": address, "file": site.as_uri()}[over]
    traits = [
        {"paper": {row["id"][:2]}, "verdict": {row["verdict"]},
         "evidence": {evidence["kind"] for evidence in row["evidence"]}}
        for row in rows
    ]
    page = visitor(home)
    page.goto(f"{home}/book/ledger.html")
    assert page.evaluate(SHOWN)["tex"] == []
    options = {
        name: page.eval_on_selector_all(f"select[name={name}] option",
                                        "all => all.slice(1).map(option => option.value)")
        for name in ("paper", "verdict", "evidence")
    }

    chosen = dict.fromkeys(options, "")

    def shows(**wanted):
        for name, value in (dict.fromkeys(options, "") | wanted).items():
            if value != chosen[name]:
                page.select_option(f"select[name={name}]", value)
                chosen[name] = value
        expected = [f"ledger-{row['id']}" for row, trait in zip(rows, traits, strict=True)
                    if all(value in trait[name] for name, value in wanted.items())]
        assert page.eval_on_selector_all(".claim-line", VISIBLE) == expected
        shown = f"{len(expected)} of {len(rows)} claims shown"
        assert page.text_content(".ledger-filter output") == shown

    shows()
    for name, values in options.items():
        assert set().union(*(trait[name] for trait in traits)) <= set(values)
        for value in values:
            shows(**{name: value})
    shows(verdict=rows[0]["verdict"], evidence=rows[0]["evidence"][0]["kind"])
    other = "PP" if rows[0]["id"].startswith("TG") else "TG"
    page.select_option("select[name=paper]", other)
    page.evaluate(f"location.hash = 'ledger-{rows[0]['id']}'")  # a link to a hidden claim shows it
    page.wait_for_selector(f"#ledger-{rows[0]['id']}", state="visible")
    assert page.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1280, 800), (390, 844)])
def test_the_graph_of_chapters_fits_a_screen_and_is_walked_by_keyboard(
        width, height, scheme, address, visitor, rows):
    page = visitor(address, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(f"{address}/book/map.html")
    box = page.locator(".claim-map svg").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width and box["height"] < 0.8 * height
    assert page.evaluate("document.documentElement.scrollWidth") == width
    size = "svg => parseFloat(getComputedStyle(svg).fontSize) * svg.getScreenCTM().a"
    assert page.eval_on_selector(".claim-map svg", size) > 11
    fill = BRIGHTNESS.replace("document.body", "document.querySelector('.claim-map rect')").replace(
        "backgroundColor", "fill")
    assert (page.evaluate(fill) < 200) == (scheme == "dark")
    links = page.eval_on_selector_all(".claim-map svg a", "all => all.map(a => a.href.baseVal)")
    assert sorted(links) == sorted({f"{row['chapter']}.html" for row in rows})
    page.eval_on_selector(".claim-map svg a", "link => link.focus()")
    for link in links[1:3]:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('href')") == link
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{links[2]}")
    page.wait_for_load_state()
    assert page.faults == []


@pytest.mark.parametrize("over", ["http", "file"])
def test_the_search_of_the_map_finds_a_claim_and_what_stands_beside_it(
        over, site, address, visitor, rows):
    home = {"http": address, "file": site.as_uri()}[over]
    page = visitor(home, viewport={"width": 390, "height": 844})
    page.goto(f"{home}/book/map.html")

    def shown():
        return page.eval_on_selector_all(".map-claims details", VISIBLE)

    assert len(shown()) == len(rows)
    page.get_by_label("Find a claim").fill("FRECHET  mean")
    expected = {f"map-{row['id']}" for row in rows
                if "fréchet" in row["title"].lower() and "mean" in row["title"].lower()}
    assert {*shown()} == expected
    status = page.get_by_role("status").filter(has_text="claims")
    assert status.inner_text() == f"{len(expected)} of {len(rows)} claims"
    page.keyboard.press("Enter")  # to the first line, which a second one opens
    page.keyboard.press("Enter")
    assert page.locator(".map-claims details[open] > summary:focus").count() == 1
    row = next(row for row in rows if len(row["uses"]) > 1)
    page.get_by_label("Find a claim").fill(row["id"].lower())
    line = page.locator(f"#map-{row['id']}[open]")
    assert shown() == [f"map-{row['id']}"] and f"harm: {row['harm']}" in line.inner_text()
    page.locator(f"#map-{row['id']} a[href='#map-{row['uses'][0]}']").first.click()
    page.wait_for_selector(f"#map-{row['uses'][0]}[open]")
    assert shown() == [f"map-{row['uses'][0]}"]
    users = page.locator(f"#map-{row['uses'][0]} li a[href='#map-{row['id']}']")
    assert users.count() == 1
    page.get_by_label("Find a claim").fill("no such claim")
    assert shown() == [] and page.faults == []


def test_without_a_script_the_map_is_a_list_without_a_search(site, visitor, rows):
    page = visitor(site.as_uri(), java_script_enabled=False)
    page.goto(f"{site.as_uri()}/book/map.html")
    lines = page.locator(".map-claims details > summary")
    assert lines.count() == len(rows) and page.get_by_label("Find a claim").is_hidden()
    lines.first.click()
    assert page.locator(".map-claims details[open] p").first.is_visible() and page.faults == []


@pytest.mark.parametrize("over", ["http", "file"])
def test_the_search_finds_a_word(over, site, address, visitor):
    home = {"http": address, "file": site.as_uri()}[over]
    page = visitor(home)
    page.goto(f"{home}/book/notation.html")
    page.wait_for_selector("mjx-container")
    page.wait_for_load_state("networkidle")  # no font is under way when the page is left
    assert page.locator(".search-button-field:visible, input[type=search]:visible").count() == 1
    page.click(".search-button-field")
    page.fill("input[type=search]:visible", "antipodal")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results a[href*='05_sensitivity']")
    page.wait_for_selector("#search-results p.search-summary:has-text('found')")
    if over == "http":
        context = "#search-results li:has(a[href*='05_sensitivity']) p.context"
        assert "antipodal" in page.text_content(context)
    assert page.faults == []


def test_dark_mode_is_dark_and_stays(address, visitor):
    page = visitor(address, color_scheme="light")
    page.goto(f"{address}/book/04_calibration.html")
    page.wait_for_selector("mjx-container")
    assert page.evaluate(BRIGHTNESS) > 600
    while page.get_attribute("html", "data-mode") != "dark":
        page.locator(".theme-switch-button:visible").click()
    assert page.evaluate(BRIGHTNESS) < 150
    # a figure stands on the page, inverted, its hues turned back; a photograph is left as it is
    assert page.eval_on_selector("figure img", LOOK) == [
        "rgba(0, 0, 0, 0)", "invert(0.9) hue-rotate(180deg) brightness(1.3)"]
    page.goto(f"{address}/book/15_descriptors.html")
    assert page.eval_on_selector("figure img.as-is", LOOK) == ["rgb(255, 255, 255)", "none"]
    page.goto(f"{address}/book/notation.html")
    assert page.evaluate(BRIGHTNESS) < 150 and page.faults == []
