"""The report in a real browser, from its file: quiet, readable in both schemes and on a phone, usable by keyboard."""

import json
import re

import pytest

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
NUMBER = "main.ridgefill.ruler_filled"
SELECTOR = f'section#main [data-cell="{NUMBER}"]'
VIEWS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]

# Contrast of every text with what is behind it, by the formula of WCAG 2; the least of all, and where.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (let one = e; one; one = one.parentElement) {
    const c = rgb(getComputedStyle(one).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
  let least = [99, ''];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || e.closest('script, .unseen, [hidden]')) continue;
    if (!e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const own = light(rgb(e.closest('svg') ? (style.fill === 'none' ? style.color : style.fill) : style.color));
    const other = light(behind(e));
    const ratio = (Math.max(own, other) + 0.05) / (Math.min(own, other) + 0.05);
    if (ratio < least[0]) least = [ratio, `${e.tagName} ${e.className.baseVal ?? e.className}: ${e.textContent}`];
  }
  return least;
})()"""


def focused(browser):
    """The cell id, else the tag and id, of what has the focus."""
    return browser.run("(e => e.dataset.cell || e.tagName + '#' + e.id)(document.activeElement)")


@pytest.fixture(params=["smollm2_split19", "smollm2_suites"])
def page(request, fresh):
    return fresh[request.param] / "report.html"


@pytest.fixture
def desktop(browser, fresh):
    """The browser on the first report at desktop width."""
    browser.open(fresh["smollm2_split19"] / "report.html", *SIZES["desktop"])
    return browser


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
def test_the_page_is_quiet_and_fits(browser, page, size, scheme, tmp_path_factory):
    """No console message, no request but for the file itself, no scrolling sideways, and text that can be read."""
    browser.open(page, *SIZES[size], scheme)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.screenshot(tmp_path_factory.mktemp("screenshots") / f"{page.parent.name}-{size}-{scheme}.png")
    said = [e for e in browser.events if e.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")]
    said += [e for e in browser.events if e.get("method") == "Log.entryAdded"]
    assert said == []
    asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    assert asked == [page.resolve().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= SIZES[size][0]
    ratio, where = browser.run(CONTRAST)
    assert ratio >= 4.5, where
    dark = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(c) for c in re.findall(r"\d+", dark)[:3]) < 200) == (scheme == "dark")


def test_labels_of_figures_do_not_overlap(browser, page):
    """No two texts of the Pareto plot, the timeline or the fit cover each other, at either width."""
    for width, height in SIZES.values():
        browser.open(page, width, height)
        found = browser.run("""['pareto', 'timeline', 'lam_curve'].flatMap(name => {
          const texts = [...document.querySelectorAll(`#figure-${name} svg text`)].filter(t => t.checkVisibility());
          const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2
          ).map(([b]) => `${name}: ${a} / ${b}`));
        })""")
        assert found == []
        assert browser.run("document.querySelectorAll('#figure-pareto svg text').length") > 20


@pytest.mark.parametrize("size", SIZES)
def test_a_number_opens_and_escape_closes(browser, fresh, size):
    """A click shows what cells.json holds of the number, and how to trace it; Escape gives the focus back."""
    folder = fresh["smollm2_split19"]
    browser.open(folder / "report.html", *SIZES[size])
    browser.click(SELECTOR)
    cells = json.loads((folder / "cells.json").read_text())["cells"]
    cell, text = cells[NUMBER], browser.run("document.getElementById('panel').innerText")
    assert browser.run("document.getElementById('panel').checkVisibility()")
    for shown in (NUMBER, cell["text"], str(cell["value"]), cell["query"], cell["run"], cell["ledger_entry"]):
        assert shown in text
    interval = [cells[f"{NUMBER}.{end}"]["value"] for end in ("low", "high")]
    assert f"{interval[0]} to {interval[1]}" in text
    assert re.search(rf"n\s+{cell['n']}\b", text)
    assert f"ridgefill trace {NUMBER} --results smollm2_split19" in text
    box = browser.run("(r => [r.left, r.right])(document.getElementById('panel').getBoundingClientRect())")
    assert box[0] >= 0
    assert box[1] <= SIZES[size][0]
    browser.press("Escape")
    assert not browser.run("document.getElementById('panel').checkVisibility()")
    assert focused(browser) == NUMBER


def test_every_number_has_facts(desktop):
    """Each number on the page opens, ours and the paper's, and none says undefined."""
    wrong = desktop.run("""[...document.querySelectorAll('.n')].filter(n => {
      n.click();
      const text = document.getElementById('panel').textContent;
      return document.getElementById('panel').hidden || /undefined|NaN|\\[object/.test(text);
    }).map(n => n.dataset.cell || n.dataset.published)""")
    assert wrong == []
    assert desktop.run("document.querySelectorAll('.n[data-published]').length") > 50


def test_the_keyboard_reaches_everything(desktop):
    """Tab starts at the skip link and meets every table; arrows move between numbers; Enter opens; Escape returns."""
    desktop.press("Tab")
    assert desktop.run("document.activeElement.className") == "skip"
    assert desktop.run("getComputedStyle(document.activeElement).left") == "8px"
    desktop.press("Enter")
    assert focused(desktop) == "MAIN#content"
    seen = []
    while not seen or (focused(desktop) != "BODY#" and len(seen) < 400):
        desktop.press("Tab")
        seen.append(focused(desktop))
        if seen[-1] != "BODY#":
            outline = desktop.run("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", seen[-1]
    tables = {one.split(".")[0] for one in seen if "." in one}
    assert {"main", "contrasts", "split_curve", "tasks", "fit", "cost", "setup", "verdicts"} <= tables
    desktop.run("document.querySelector('section#main .n').focus()")
    first = focused(desktop)
    for key, there in (
        ("ArrowRight", "main.exact.ruler_filled.low"),
        ("ArrowDown", "main.no_fill.ruler_filled.low"),
        ("ArrowLeft", "main.no_fill.ruler_filled"),
        ("ArrowUp", first),
    ):
        desktop.press(key)
        assert focused(desktop) == there
    desktop.press("Enter")
    assert focused(desktop) == "ASIDE#panel"
    desktop.press("Escape")
    assert focused(desktop) == first


def test_the_switch_wins_over_the_system(browser, fresh):
    """Three states in turn: as the system, light, dark, whatever the system says."""
    browser.open(fresh["smollm2_split19"] / "report.html", *SIZES["desktop"], "dark")
    colours = []
    for _ in range(4):
        colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
        browser.click("#theme")
    assert colours[0] == colours[2] == colours[3] != colours[1]
    browser.run("localStorage.clear()")


def test_contents_lead_to_every_section(desktop):
    """Each section is linked, each link has its section, and headers of tables have their scope."""
    assert desktop.run("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))") == desktop.run(
        "[...document.querySelectorAll('main section')].map(s => s.id)"
    )
    assert desktop.run("[...document.querySelectorAll('th')].filter(t => !t.scope).length") == 0
    assert desktop.run("[...document.querySelectorAll('table')].filter(t => !t.caption).length") == 0
