"""The memory of a sweep follows its budget and not its number of cells, by the process's own high-water mark."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, pathlib, re, torch
import workbench as wb

torch.set_num_threads(1)
model = wb.load("smollm2-135m")
clean = model.to_tokens("When Mary and John went to the store, John gave a drink to")
corrupted = torch.randint(1000, 40_000, clean.shape, generator=torch.Generator().manual_seed(0))

def peak(layers, memory):
    wb.activation_patching(
        model, clean, corrupted, wb.logit_diff(1, 2), "z", ("layer", "pos", "head"),
        layers=layers, memory=memory, progress=False,
    )
    status = pathlib.Path("/proc/self/status").read_text()  # getrusage would begin with its parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])

model(clean)
few, more = 2**25, 2**28
print(json.dumps([peak([26], few), peak([26, 27], few), peak(range(18, 28), few), peak(range(18, 28), more)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the mark is read from /proc")
def test_many_cells_take_no_more_than_few():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    one_layer, two_layers, ten_layers, with_more = json.loads(done.stdout)
    assert ten_layers - two_layers < 2**24  # 1260 cells and 252; a batch of them takes up to 2**25
    assert two_layers - one_layer < 2**25
    assert 2**24 < with_more - ten_layers < 2**28  # the mark moves when it may
