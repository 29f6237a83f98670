"""What axe-core says of a page."""

from pathlib import Path

import axe_playwright_python

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(page, within="body"):
    """[rule: element] of every violation of WCAG 2.2 A and AA and of the best practices, of what is in `within`."""
    page.evaluate(AXE)
    found = page.evaluate("(within) => axe.run(within)", within)["violations"]
    page_rules = {"page-has-heading-one", "landmark-one-main", "region"}  # of the page around, which is the test's own
    return [
        f"{rule['id']}: {node['html'][:160]} ({node['failureSummary'][:200]})"
        for rule in found
        if rule["id"] not in page_rules
        for node in rule["nodes"]
    ]
