import json
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from workbench.errors import InputError, KindError, LoadError, MetricError
from workbench.formats.tokenizer_folder import read_tokenizer
from workbench.tokenizer import Tokenizer, pad_left

TEXTS = [
    "",
    "the cat and the dog",
    " the  cat \n\n sat\t",
    "café 日本 😀 it's 123",
    "<|bos|>the<|eos|> cat",
    "the<|endoftext|>cat",
]


def byte_level() -> tokenizers.Tokenizer:
    """A trained byte-level BPE with <|bos|> 0, <|eos|> 1 and no post-processor."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|bos|>", "<|eos|>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["the cat and the dog sat on the mat with the hat"] * 4, trainer)
    return backend


def template(backend: tokenizers.Tokenizer, single: str) -> tokenizers.Tokenizer:
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair=f"{single} $B:1", special_tokens=[("<|bos|>", 0), ("<|eos|>", 1)]
    )
    return backend


def sentencepiece() -> tokenizers.Tokenizer:
    """Llama 2's shape: a space before the text, bytes for what is unknown, <|bos|> in front."""
    names = ["<unk>", "<|bos|>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "t", "h", "e", "th", "he"]
    names += ["the", "▁the"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("h", "e")]
    vocab = {name: i for i, name in enumerate(names)}
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    backend.add_special_tokens(["<|bos|>"])
    return backend


SIZE = byte_level().get_vocab_size()


def plain(**kwargs) -> Tokenizer:
    return Tokenizer(byte_level(), **({"bos_id": 0, "eos_id": 1, "adds_bos": False} | kwargs))


# ---- encoding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_exactly_one_bos(adds_bos, text):
    tokenizer = plain(adds_bos=adds_bos)
    bare = byte_level().encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text) == ([0, *bare] if adds_bos else bare)
    assert tokenizer.encode(text, prepend_bos=False) == bare
    once = tokenizer.encode(text, prepend_bos=True)
    assert once == [0, *(bare[1:] if bare[:1] == [0] else bare)]


def test_many_bos_in_the_text_become_one():
    for adds_bos in (True, False):
        assert plain(adds_bos=adds_bos).encode("<|bos|><|bos|>cat", True)[:2].count(0) == 1


def test_bos_that_is_also_eos():
    tokenizer = Tokenizer(template(byte_level(), "<|bos|> $A <|bos|>"), 0, 0, adds_bos=True)
    bare = byte_level().encode("the cat").ids
    assert tokenizer.encode("the cat", prepend_bos=False) == [*bare, 0]
    assert tokenizer.encode("the cat", prepend_bos=True) == [0, *bare, 0]


def test_the_rule_wins_over_a_post_processor_and_keeps_its_eos():
    bare = byte_level().encode("cat").ids
    silent = Tokenizer(template(byte_level(), "<|bos|> $A <|eos|>"), 0, 1, adds_bos=False)
    assert silent.encode("cat") == [*bare, 1]
    spoken = Tokenizer(template(byte_level(), "$A <|eos|>"), 0, 1, adds_bos=True)
    assert spoken.encode("cat") == [0, *bare, 1]


def test_no_bos():
    tokenizer = plain(bos_id=None)
    assert tokenizer.encode("cat", prepend_bos=False) == tokenizer.encode("cat")
    with pytest.raises(InputError, match="without a BOS token"):
        tokenizer.encode("cat", prepend_bos=True)
    with pytest.raises(InputError, match="without a bos_id"):
        plain(bos_id=None, adds_bos=True)


def test_only_text_is_encoded():
    with pytest.raises(KindError, match="came as list"):
        plain().encode(["a"])  # type: ignore[arg-type]


def test_no_truncation_and_no_padding():
    backend = byte_level()
    backend.enable_truncation(2)
    backend.enable_padding(length=50)
    backend.encode_special_tokens = True
    tokenizer = Tokenizer(backend, 0, 1, adds_bos=False)
    for text in TEXTS:
        assert tokenizer.encode(text) == byte_level().encode(text).ids


def test_decode_is_the_text_again():
    tokenizer = plain()
    for text in [*TEXTS, "a , b . c ' s", " n't 're"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("bad", [-1, SIZE, 10**12])
def test_ids_outside_the_vocabulary(bad):
    tokenizer = plain()
    assert tokenizer.vocab_size == SIZE
    for ask in (tokenizer.piece, lambda i: tokenizer.decode([5, i])):
        with pytest.raises(InputError, match=f"{bad} is not in this vocabulary of {SIZE}"):
            ask(bad)


# ---- pieces and single tokens --------------------------------------------------------------------------


def test_pieces_of_byte_level_bpe():
    tokenizer = plain()
    assert [tokenizer.piece(i) for i in tokenizer.encode("the cat\n")] == ["the", " cat", "\n"]
    assert tokenizer.piece(0) == "<|bos|>"
    assert [tokenizer.piece(i) for i in tokenizer.encode("é")] == ["<0xC3>", "<0xA9>"]


def test_a_piece_that_is_partly_text():
    """The letters for the bytes of ' é' followed by half of another character."""
    backend = byte_level()
    spelt = "ĠÃ©âĢ"
    vocab = {**backend.get_vocab(), spelt: SIZE}
    odd = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    odd.decoder = decoders.ByteLevel()
    assert Tokenizer(odd, None, None, adds_bos=False).piece(SIZE) == " é<0xE2><0x80>"


def test_added_tokens_are_literal_also_in_byte_letters():
    backend = byte_level()
    backend.add_tokens([AddedToken("Ġé", normalized=False)])
    assert Tokenizer(backend, 0, 1, adds_bos=False).piece(SIZE) == "Ġé"


def test_pieces_of_sentencepiece():
    tokenizer = Tokenizer(sentencepiece(), 1, None, adds_bos=True)
    shown = [tokenizer.piece(i) for i in tokenizer.encode(" the\né")]
    assert shown == ["<|bos|>", " ", " the", "\n", "<0xC3>", "<0xA9>"]


@pytest.mark.parametrize("scheme", ["first", "always"])
def test_single_is_about_text_that_continues(scheme):
    """'▁the' is ' the': the space that the vocabulary would put before a whole text does not count."""
    metaspace = sentencepiece()
    metaspace.normalizer = None
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    for backend in (sentencepiece(), metaspace):
        tokenizer = Tokenizer(backend, 1, None, adds_bos=True)
        assert tokenizer.piece(tokenizer.single(" the")) == " the"
        assert tokenizer.piece(tokenizer.single("the")) == "the"


def test_single_with_a_prefix_space_of_byte_level():
    backend = byte_level()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = Tokenizer(backend, 0, 1, adds_bos=False)
    assert tokenizer.piece(tokenizer.single("at")) == "at"


def test_single_names_the_pieces():
    tokenizer = plain()
    assert tokenizer.single("<|eos|>") == 1
    with pytest.raises(MetricError, match=r"'hats' is not one token: it splits into 'hat', 's'$"):
        tokenizer.single("hats")
    with pytest.raises(MetricError, match=r"'' is not one token: it splits into nothing$"):
        tokenizer.single("")


def test_single_hints_at_a_leading_space():
    tokenizer = Tokenizer(sentencepiece(), 1, None, adds_bos=True)
    tokenizer.backend.add_tokens([AddedToken(" cat", normalized=False)])
    with pytest.raises(MetricError, match=r"; ' cat', with a leading space, is one$"):
        tokenizer.single("cat")


# ---- batches -------------------------------------------------------------------------------------------


def test_pad_left():
    ids, mask = pad_left([[7, 8, 9], [], [5]], pad_id=2)
    assert ids.tolist() == [[7, 8, 9], [2, 2, 2], [2, 2, 5]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [False, False, True]]
    assert (ids.dtype, mask.dtype) == (torch.int64, torch.bool)
    assert plain(pad_id=6).pad_left([[1], [1, 2]])[0].tolist() == [[6, 1], [1, 2]]
    with pytest.raises(InputError, match="no rows"):
        pad_left([])


# ---- folders -------------------------------------------------------------------------------------------


def write_folder(folder: Path, backend: tokenizers.Tokenizer | None = None, **files: dict) -> Path:
    folder.mkdir(exist_ok=True)
    if backend is not None:
        backend.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


NAMED = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "tokenizer_class": "PreTrainedTokenizerFast"}
FLAGGED = {"content": "<|bos|>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
TOKEN = {k: FLAGGED[k] for k in FLAGGED if k != "content"}


@pytest.mark.parametrize("post", [None, "$A", "<|bos|> $A", "<|bos|> $A <|eos|>"])
@pytest.mark.parametrize(
    "config",
    [
        NAMED,
        NAMED | {"add_bos_token": True},
        NAMED | {"add_bos_token": False},
        NAMED | {"add_bos_token": True, "add_eos_token": True},
        NAMED | {"add_bos_token": None},
        NAMED | {"bos_token": {"__type": "AddedToken", **FLAGGED}},
        NAMED | {"pad_token": "<|pad|>", "extra_special_tokens": ["cat"]},
        NAMED | {"additional_special_tokens": ["dog", "<|new|>"]},
        NAMED | {"added_tokens_decoder": {str(SIZE): {"content": " sat", **TOKEN, "special": False}}},
        {"eos_token": "<|eos|>", "tokenizer_class": "PreTrainedTokenizerFast"},
        NAMED | {"tokenizer_class": "GPT2Tokenizer"},
        NAMED | {"tokenizer_class": "GPT2TokenizerFast", "add_bos_token": True},
        {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True},
        {"tokenizer_class": "GPT2Tokenizer"},
        NAMED | {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True},
        {"tokenizer_class": "Qwen2Tokenizer"},
    ],
    ids=str,
)
def test_folders_equal_transformers(tmp_path, post, config):
    backend = byte_level() if post is None else template(byte_level(), post)
    if config["tokenizer_class"] == "Qwen2Tokenizer":  # transformers puts its own split there, whatever the file says
        backend.pre_tokenizer = tokenizers.Tokenizer.from_str(
            AutoTokenizer.from_pretrained(
                write_folder(tmp_path / "q", backend, tokenizer_config=config)
            ).backend_tokenizer.to_str()
        ).pre_tokenizer
        backend.normalizer = normalizers.NFC()
    same_as_transformers(write_folder(tmp_path / "model", backend, tokenizer_config=config))


def same_as_transformers(folder: Path) -> None:
    ours, theirs = read_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert (ours.bos_id, ours.eos_id, ours.pad_id) == (
        theirs.bos_token_id,
        theirs.eos_token_id,
        theirs.pad_token_id,
    )
    assert ours.vocab_size == len(theirs)
    for text in TEXTS:
        assert ours.encode(text) == theirs(text).input_ids, text
        assert ours.decode(ours.encode(text)) == theirs.decode(
            theirs(text).input_ids, clean_up_tokenization_spaces=False
        )


def test_special_tokens_map(tmp_path):
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    names = {"bos_token": FLAGGED, "eos_token": "<|eos|>", "pad_token": "<|eos|>"}
    folder = write_folder(tmp_path / "model", byte_level(), tokenizer_config=config, special_tokens_map=names)
    same_as_transformers(folder)
    assert read_tokenizer(folder).pad_id == 1


def test_special_tokens_map_is_stale_beside_added_tokens_decoder(tmp_path):
    config = NAMED | {"added_tokens_decoder": {"0": {"content": "<|bos|>", **TOKEN, "special": True}}}
    names = {"bos_token": "<|endoftext|>"}
    folder = write_folder(tmp_path / "model", byte_level(), tokenizer_config=config, special_tokens_map=names)
    same_as_transformers(folder)
    assert read_tokenizer(folder).bos_id == 0


def test_flags_in_tokenizer_json_stay(tmp_path):
    """A token that is named again in the configuration keeps taking the spaces before it."""
    backend = byte_level()
    backend.add_special_tokens([AddedToken("<|mask|>", lstrip=True, normalized=False)])
    folder = write_folder(tmp_path / "model", backend, tokenizer_config=NAMED | {"mask_token": "<|mask|>"})
    ours, theirs = read_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.encode("the   <|mask|>") == theirs("the   <|mask|>").input_ids == [*ours.encode("the"), SIZE]


def test_class_by_model_type(tmp_path):
    """GPT-2's own folder names no special token: its class does."""
    config = {"model_type": "gpt2", "vocab_size": SIZE}
    folder = write_folder(tmp_path / "model", byte_level(), tokenizer_config={"model_max_length": 1024}, config=config)
    same_as_transformers(folder)
    assert read_tokenizer(folder).bos_id == 2


@pytest.mark.parametrize(
    "config", [{}, {"add_bos_token": True}, {"add_prefix_space": True}, NAMED | {"pad_token": "x"}]
)
def test_vocab_and_merges(tmp_path, config):
    """The two files of a GPT-2 folder from before tokenizer.json."""
    model = json.loads(byte_level().to_str())["model"]
    folder = write_folder(
        tmp_path / "model",
        vocab=model["vocab"],
        tokenizer_config=config | {"tokenizer_class": "GPT2Tokenizer"},
        config={"model_type": "gpt2"},
    )
    pairs = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    same_as_transformers(folder)


def test_published_llama_json_is_followed_to_the_letter(tmp_path):
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<|bos|>", "unk_token": "<unk>", "eos_token": None}
    folder = write_folder(tmp_path / "model", sentencepiece(), tokenizer_config=config)
    ours, theirs = read_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for text in ["", "the", "the the  é\n"]:
        assert ours.encode(text) == theirs(text).input_ids
    for text in [" the", "  the", "the<|bos|>the"]:
        assert ours.encode(text) == sentencepiece().encode(text).ids


def test_no_tokenizer_in_a_folder(tmp_path):
    assert read_tokenizer(tmp_path) is None
    (tmp_path / "vocab.json").write_text("{}")
    assert read_tokenizer(tmp_path) is None


def test_merges_of_another_class(tmp_path):
    folder = write_folder(tmp_path / "m", vocab={}, tokenizer_config={"tokenizer_class": "CLIPTokenizer"})
    (folder / "merges.txt").write_text("")
    with pytest.raises(LoadError, match="of a CLIPTokenizer"):
        read_tokenizer(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b'{"version": "1.0", "mod'),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\xff\xfe\x00"),
        ("tokenizer.json", b"[" * 100_000),
        ("tokenizer_config.json", b'{"bos_token": '),
        ("tokenizer_config.json", b"[1]"),
        ("tokenizer_config.json", b'{"bos_token": [1]}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"x": "y"}}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"3": {"content": "a", "lstrip": "no"}}}'),
        ("special_tokens_map.json", b"\xff"),
        ("config.json", b"{"),
        ("merges.txt", b"a b c\n"),
        ("merges.txt", b"zzzz yyyy\n"),
        ("merges.txt", b"\xff\n"),
        ("vocab.json", b'{"a": "b"}'),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content):
    if name in ("merges.txt", "vocab.json"):
        folder = write_folder(tmp_path / "m", vocab={"a": 0, "b": 1})
        (folder / "merges.txt").write_text("#version: 0.2\n")
    else:
        folder = write_folder(tmp_path / "m", byte_level())
    (folder / name).write_bytes(content)
    with pytest.raises(LoadError, match=name.split(".")[0]):
        read_tokenizer(folder)


def test_every_truncation_of_tokenizer_json(tmp_path):
    folder = write_folder(tmp_path / "m", byte_level())
    whole = (folder / "tokenizer.json").read_bytes()
    for n in range(0, len(whole) - 1, 97):
        (folder / "tokenizer.json").write_bytes(whole[:n])
        with pytest.raises(LoadError, match=r"tokenizer\.json in m "):
            read_tokenizer(folder)


# ---- saving, and transformers' objects -----------------------------------------------------------------


@pytest.mark.parametrize("make", [byte_level, sentencepiece])
@pytest.mark.parametrize("adds_bos", [True, False])
def test_save_round_trip(tmp_path, make, adds_bos):
    backend = make()
    bos = backend.token_to_id("<|bos|>")
    tokenizer = Tokenizer(backend, bos, backend.token_to_id("<|eos|>"), 0, adds_bos=adds_bos)
    tokenizer.save(tmp_path / "own")
    again = read_tokenizer(tmp_path / "own")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "own")
    assert vars(again).keys() >= {"bos_id", "eos_id", "pad_id", "adds_bos"}
    for name in ("bos_id", "eos_id", "pad_id", "adds_bos", "vocab_size"):
        assert getattr(again, name) == getattr(tokenizer, name)
    for text in TEXTS:
        assert again.encode(text) == tokenizer.encode(text) == theirs(text).input_ids
        assert again.encode(text, True) == tokenizer.encode(text, True)
    assert [again.piece(i) for i in range(again.vocab_size)] == [tokenizer.piece(i) for i in range(again.vocab_size)]


def test_from_transformers_leaves_the_original_alone():
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=template(byte_level(), "<|bos|> $A"), bos_token="<|bos|>", eos_token="<|eos|>"
    )
    theirs.backend_tokenizer.enable_truncation(3)
    before = theirs.backend_tokenizer.to_str()
    ours = Tokenizer.from_transformers(theirs)
    assert (ours.bos_id, ours.eos_id, ours.pad_id, ours.adds_bos) == (0, 1, None, True)
    for text in TEXTS:
        assert ours.encode(text) == template(byte_level(), "<|bos|> $A").encode(text).ids
    assert theirs.backend_tokenizer.to_str() == before
    assert ours.backend is not theirs.backend_tokenizer


def test_from_transformers_follows_a_changed_rule():
    theirs = PreTrainedTokenizerFast(tokenizer_object=byte_level(), bos_token="<|bos|>")
    assert not Tokenizer.from_transformers(theirs).adds_bos
    theirs.add_bos_token = True
    assert Tokenizer.from_transformers(theirs).encode("cat") == theirs("cat").input_ids
    assert Tokenizer.from_transformers(theirs).adds_bos


def test_slow_tokenizers_are_refused():
    class Slow:
        bos_token_id = 0

    with pytest.raises(KindError, match=r"a Slow came.*fast tokenizer is wanted"):
        Tokenizer.from_transformers(Slow())
