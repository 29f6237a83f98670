import struct
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, quants

from workbench.errors import InputError, LoadError, MissingError, WorkbenchError
from workbench.formats import gguf as module
from workbench.formats.gguf import SUPPORTED, GGUFFile
from workbench.formats.gguf_tokenizer import gguf_tokenizer

# Where a block of each type keeps its half-precision scales, in bytes; everything else may be any bits.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}


def stored(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random bytes [*shape[:-1], row bytes] that are a valid tensor of this type."""
    rng = np.random.default_rng(seed)
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // block, block_bytes), dtype=np.uint8)
    for at in SCALES.get(kind, ()):
        blocks[..., at : at + 2] = rng.normal(size=(*blocks.shape[:-1], 1)).astype(np.float16).view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def small(write_gguf, **metadata) -> Path:
    """A little of everything: text, numbers, lists, three types of tensors."""
    tensors = [
        ("plain", np.arange(12, dtype=np.float32).reshape(3, 4), None),
        ("half", np.arange(6, dtype=np.float16), None),
        ("packed", stored("Q4_1", (2, 64)), GGMLQuantizationType.Q4_1),
    ]
    return write_gguf(
        {"some.text": "naïve", "some.list": [1, 2, 3], "some.words": ["a", "b"], "some.flag": True, **metadata},
        tensors,
    )


def test_metadata_are_plain_values(write_gguf):
    file = GGUFFile.open(small(write_gguf, **{"some.number": 7, "some.real": 0.5}))
    assert file.architecture == "llama"
    assert {k: v for k, v in file.metadata.items() if k.startswith("some.")} == {
        "some.text": "naïve",
        "some.list": [1, 2, 3],
        "some.words": ["a", "b"],
        "some.flag": True,
        "some.number": 7,
        "some.real": 0.5,
    }
    assert list(file.tensors) == ["plain", "half", "packed"]
    assert (file.shape("plain"), file.shape("half"), file.shape("packed")) == ((3, 4), (6,), (2, 64))


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
@pytest.mark.parametrize("shape", [(5, 512), (2, 3, 256), (256,)])
def test_quantised_tensors_are_what_gguf_computes(write_gguf, monkeypatch, kind, shape):
    monkeypatch.setattr(module, "_PIECE", 1024)  # several pieces, the last of them shorter
    raw, kind_of = stored(kind, shape), GGMLQuantizationType[kind]
    file = GGUFFile.open(write_gguf(tensors=[("first", np.ones(3, np.float32), None), ("w", raw, kind_of)]))
    got = file.tensor("w")
    assert got.dtype == torch.float32
    assert got.shape == shape == file.shape("w")
    np.testing.assert_array_equal(got.numpy(), quants.dequantize(raw, kind_of))


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_plain_tensors_are_views_of_the_file(write_gguf, kind):
    values = torch.randn(6, 8).to(module.PLAIN[kind])
    bits = values.view(torch.uint8).numpy() if kind == "BF16" else values.numpy()
    file = GGUFFile.open(write_gguf(tensors=[("w", bits, GGMLQuantizationType.BF16 if kind == "BF16" else None)]))
    torch.testing.assert_close(file.tensor("w"), values.float(), rtol=0, atol=0)
    view = file.tensor("w", dtype=values.dtype)
    assert view.dtype == values.dtype
    assert file.data.ctypes.data <= view.data_ptr() < file.data.ctypes.data + len(file.data)
    view.zero_()  # the map is private
    torch.testing.assert_close(GGUFFile.open(file.path).tensor("w"), values.float(), rtol=0, atol=0)


def test_one_block_by_hand(write_gguf):
    """Q4_1: 32 values d * q + m, the low halves of 16 bytes first, then the high ones.

    With d = 0.5, m = -1 and bytes 0x10, 0x32 and then zeros: q = 0, 2, 0, ... and 1, 3, 0, ..., so the values
    are -1, 0, -1, ... and -0.5, 0.5, -1, ...
    """
    block = np.frombuffer(struct.pack("<ee16B", 0.5, -1.0, 0x10, 0x32, *[0] * 14), np.uint8)
    file = GGUFFile.open(write_gguf(tensors=[("w", block.reshape(1, 20), GGMLQuantizationType.Q4_1)]))
    expected = torch.full((1, 32), -1.0)
    expected[0, 1], expected[0, 16], expected[0, 17] = 0.0, -0.5, 0.5
    torch.testing.assert_close(file.tensor("w"), expected, rtol=0, atol=0)


def test_odd_alignment(write_gguf):
    starts = set()
    for n in (1, 2, 3, 4):
        path = write_gguf({"general.alignment": 1, "pad": "x" * n}, [("w", np.ones((2, 2), np.float32), None)])
        file = GGUFFile.open(path)
        starts.add(file.tensors["w"].start % 4)
        torch.testing.assert_close(file.tensor("w"), torch.ones(2, 2), rtol=0, atol=0)
        assert file.tensor("w").data_ptr() % 4 == 0
    assert starts == {0, 1, 2, 3}


def test_empty_tensor_and_no_tensors(write_gguf):
    assert GGUFFile.open(write_gguf({"a": 1})).tensors == {}
    assert GGUFFile.open(write_gguf(tensors=[("e", np.zeros((0, 4), np.float32), None)])).tensor("e").shape == (
        0,
        4,
    )


def test_unsupported_type_names_itself_and_what_is_supported(write_gguf):
    raw = stored("Q2_K", (1, 256))
    file = GGUFFile.open(write_gguf(tensors=[("w", raw, GGMLQuantizationType.Q2_K)]))
    assert file.shape("w") == (1, 256)
    with pytest.raises(LoadError, match=r"'w'.*Q2_K.*F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K"):
        file.tensor("w")


def test_unknown_names(write_gguf, tmp_path):
    with pytest.raises(InputError, match=r"'plane'.*plain"):
        GGUFFile.open(small(write_gguf)).tensor("plane")
    with pytest.raises(MissingError, match=r"modle\.gguf is no file.*model\.gguf"):
        GGUFFile.open(tmp_path / "modle.gguf")
    with pytest.raises(MissingError):
        GGUFFile.open(tmp_path)


def test_every_truncation_is_a_load_error(write_gguf):
    path = small(write_gguf)
    whole = path.read_bytes()
    promised = max(t.start + t.n_bytes for t in GGUFFile.open(path).tensors.values())
    for n in range(promised):
        path.write_bytes(whole[:n])
        with pytest.raises(LoadError, match=r"model\.gguf"):
            GGUFFile.open(path)
    with pytest.raises(LoadError, match=rf"has {promised - 1:,} bytes and its header promises {promised:,}"):
        GGUFFile.open(path)
    path.write_bytes(whole[:promised])
    GGUFFile.open(path)


def test_a_damaged_header_never_gets_further_than_an_error(write_gguf):
    """Each header byte in turn set to 0, 127 and 255: a file, or an error of ours, and quickly."""
    path = small(write_gguf)
    whole = bytearray(path.read_bytes())
    header = min(t.start for t in GGUFFile.open(path).tensors.values())
    outcomes, said = set(), set()
    for at in range(header):
        for value in (0, 127, 255):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                file = GGUFFile.open(path)
                for name in file.tensors:
                    file.tensor(name)
                outcomes.add("read")
            except WorkbenchError as error:
                outcomes.add(type(error).__name__)
                said.add(str(error))
    assert outcomes == {"read", "LoadError"}
    assert not any("\n" in message for message in said)


def head(*, version=3, tensors=0, values=0, rest=b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values) + rest


KEY = struct.pack("<Q", 1) + b"k"
HUGE = 2**62


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes"),
        (b"PK\x03\x04" + bytes(60), r"begins with b'PK\\x03\\x04'"),
        (head(version=1) + bytes(60), "version 1"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0) + bytes(60), "big-endian"),
        (head(values=HUGE) + bytes(100), "ends inside its header"),
        (head(tensors=HUGE) + bytes(100), "ends inside its header"),
        (head(values=1, rest=struct.pack("<Q", HUGE)) + bytes(100), "ends inside its header"),
        (head(values=1, rest=KEY + struct.pack("<IIQ", 9, 8, HUGE)) + bytes(100), "ends inside its header"),
        (head(values=1, rest=KEY + struct.pack("<IIQ", 9, 0, 2**24)) + bytes(2**24), "more than any model has"),
        (head(values=1, rest=KEY + struct.pack("<IIQ", 9, 9, 1)) + bytes(100), "array of value type 9"),
        (head(values=1, rest=KEY + struct.pack("<I", 99)) + bytes(100), "value of type 99"),
        (head(values=2, rest=2 * (KEY + struct.pack("<IB", 0, 1))) + bytes(100), "'k' twice"),
        (head(tensors=2, rest=2 * (KEY + struct.pack("<IIQ", 0, 0, 0))) + bytes(100), "tensor 'k' twice"),
        (head(tensors=1, rest=KEY + struct.pack("<I", 10**9)) + bytes(100), "1,000,000,000 axes"),
        (
            head(tensors=1, rest=KEY + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0)) + bytes(100),
            "header promises 4,835,703,278,458,516,698,8",
        ),
        (head(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 33, 2, 0)) + bytes(100), "no multiple of 32"),
        (head(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 1, 0, HUGE)) + bytes(100), "header promises"),
    ],
)
def test_absurd_headers_are_refused_at_once(tmp_path, content, said):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    start = time.process_time()
    with pytest.raises(LoadError, match=said):
        GGUFFile.open(path)
    assert time.process_time() - start < 2


def test_a_type_without_a_name_is_listed_but_not_read(tmp_path):
    path = tmp_path / "new.gguf"
    path.write_bytes(head(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 4, 999, 0)) + bytes(100))
    file = GGUFFile.open(path)
    assert file.shape("k") == (4,)
    with pytest.raises(LoadError, match="type 999"):
        file.tensor("k")


def test_parts_of_a_split_file_are_refused(write_gguf):
    with pytest.raises(LoadError, match="one of 3 parts"):
        GGUFFile.open(small(write_gguf, **{"split.count": 3}))


def test_no_architecture(tmp_path):
    path = tmp_path / "bare.gguf"
    path.write_bytes(head() + bytes(8))
    with pytest.raises(LoadError, match=r"no general\.architecture"):
        _ = GGUFFile.open(path).architecture


def test_the_real_model(smollm_file):
    """Names, shapes and metadata as the gguf package's own reader has them, and some tensors' values."""
    file, reader = GGUFFile.open(smollm_file), GGUFReader(smollm_file)
    assert {t.name: tuple(map(int, reversed(t.shape))) for t in reader.tensors} == {
        name: info.shape for name, info in file.tensors.items()
    }
    for key in (k for k in reader.fields if not k.startswith("GGUF.")):
        assert file.metadata[key] == reader.fields[key].contents(), key
    assert {t.kind for t in file.tensors.values()} <= set(SUPPORTED)
    for tensor in reader.tensors[::40]:
        np.testing.assert_array_equal(
            file.tensor(tensor.name).numpy(),
            quants.dequantize(tensor.data, tensor.tensor_type).reshape(file.shape(tensor.name)),
        )


def test_the_whole_real_model_is_read(smollm_file):
    file = GGUFFile.open(smollm_file)
    assert sum(file.tensor(name).numel() for name in file.tensors) == 134_515_008


def test_a_half_downloaded_real_model(smollm_file, tmp_path):
    part = tmp_path / "part.gguf"
    with open(smollm_file, "rb") as file:
        part.write_bytes(file.read(40_000_000))
    with pytest.raises(LoadError, match="has 40,000,000 bytes and its header promises 98,362,432"):
        GGUFFile.open(part)
    with pytest.raises(LoadError, match="40,000,000"):
        gguf_tokenizer(part)
