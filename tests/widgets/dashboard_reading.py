"""What a dashboard on a page says, and tokens that try to be something else than text."""

from workbench.figures.tokens import visible

NASTY = [
    "<script>alert(1)</script>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "שלום",
    "\u202eabc",
    "\u200b",
    "\n",
    "",
]


def sources(root):
    """What the readout lists: {position: (token, weight as written)}."""
    rows = root.get_by_test_id("readout").locator("tbody tr")
    cells = rows.evaluate_all("rows => rows.map((row) => [...row.children].map((cell) => cell.textContent))")
    return {int(position): (token, weight) for position, token, weight, *_ in cells}


def looked_at(root):
    return root.get_by_test_id("readout").locator("p").first.text_content()


def check_readout(root, tokens, pattern, query):
    assert looked_at(root).startswith(f"{visible(tokens[query])} at {query} attends to")
    shown = sources(root)
    row = pattern[query]
    best = row.argsort(descending=True, stable=True)[: min(8, query + 1)].tolist()
    assert set(best) <= set(shown)
    assert {p: (visible(tokens[p]), f"{row[p].item():.4f}") for p in shown} == shown
