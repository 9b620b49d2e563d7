"""What is looked for on every page of the console."""

from axe_playwright_python.sync_playwright import Axe

# Text that another element hides, or that runs out of the window: what a person would call broken.
OVERLAPS = """
() => {
  const found = [];
  if (document.documentElement.scrollWidth > window.innerWidth + 1)
    found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${window.innerWidth}`);
  const floats = element => {  // bars that stay in sight hide what scrolls below them, and may
    for (let at = element; at; at = at.parentElement)
      if (["fixed", "sticky"].includes(getComputedStyle(at).position)) return true;
    return false;
  };
  const shown = element => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
  for (const element of document.querySelectorAll("main a, #main a, #main button, #main input, #main h1, #main h2")) {
    if (!shown(element) || element.closest("[aria-hidden=true]")) continue;
    const box = element.getBoundingClientRect();
    if (!box.width || box.bottom < 0 || box.top > window.innerHeight || box.right > window.innerWidth) continue;
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    if (x < 0 || y < 0 || y > window.innerHeight) continue;
    const top = document.elementFromPoint(x, y);
    if (top && top !== element && !element.contains(top) && !top.contains(element) && !top.closest("label")
        && !floats(top))
      found.push(`<${top.tagName.toLowerCase()} ${top.className}> covers "${element.textContent.trim().slice(0, 40)}"`);
  }
  return found;
}
"""


# Words of tables on two lines, though they are as short as a state or a public id.
BROKEN_WORDS = r"""
() => {
  const found = [];
  for (const cell of document.querySelectorAll("#main :is(td, th)")) {
    if (!cell.checkVisibility()) continue;
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const word of text.data.matchAll(/(?<!\S)\w{2,10}[.,]?(?!\S)/g)) {
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
        if (lines.size > 1) found.push(`"${word[0]}" is broken in <td class="${cell.className}">`);
      }
    }
  }
  return found;
}
"""

# What a page is asked for: violations alone, without a path to each element, and without fetching its styles once more.
SHORT = {"resultTypes": ["violations"], "selectors": False, "preload": False}


def problems_on(page) -> list[str]:
    """Elements that overlap, words that are broken, and findings of axe's rules of accessibility."""
    return page.evaluate(OVERLAPS) + page.evaluate(BROKEN_WORDS) + findings(page)


def findings(page, *rules: str) -> list[str]:
    """What axe finds by these rules, or by all. A page gets axe once: the browser compiles it anew each time."""
    if page.evaluate("window.axe === undefined"):
        page.evaluate(Axe().axe_script)
    options = SHORT | ({"runOnly": rules} if rules else {})
    violations = page.evaluate("options => axe.run(options).then(results => results.violations)", options)
    return [
        f"{violation['id']}: {violation['nodes'][0]['failureSummary']} ({violation['nodes'][0]['html'][:160]})"
        for violation in violations
    ]
