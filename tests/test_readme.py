"""The README's blocks, run top to bottom as a newcomer would."""

import re
from pathlib import Path

import workbench as wb

README = Path(__file__).parents[1] / "README.md"


def test_every_block_of_the_readme_runs(smollm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load = wb.load
    monkeypatch.setattr(wb, "load", lambda source: smollm if source == "smollm2-135m" else load(source))
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["r"].effect.shape == (30, 14)
    assert names["lens"].texts[0][-1][-1][0] == " Mary"
