import json
import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from workbench.errors import LoadError, MetricError
from workbench.formats.gguf import GGUFFile
from workbench.formats.gguf_tokenizer import gguf_tokenizer, read_gguf_tokenizer
from workbench.tokenizer import Tokenizer, byte_alphabet

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

TEXTS = [
    "",
    "Hello world",
    " leading",
    "   three spaces before, three after   ",
    "a  b   c\n\n\n\td\r\ne",
    "def f(x: int) -> int:\n    return x**2 + 1  # square\n",
    "café naïve Ångström Straße e\u0301",
    "日本語のテキスト 中文 한국어",
    "😀 👍🏽 👨‍👩‍👧",
    "It's we'll I'd DON'T they're y'all'",
    "1 22 333 4444 1,000.50 2024-01-31 v1.2",
    "zero\u200bwidth\u200d\ufeff soft\u00adhyphen nbsp\u00a0x",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|><|im_start|> <|im_end",
    "mixed: ½ ² Ⅷ ٣",
    "\t\n ",
]


@pytest.fixture(scope="session")
def smollm_tokenizer(smollm_file: Path) -> Tokenizer:
    return gguf_tokenizer(smollm_file)


@pytest.fixture(scope="session")
def smollm_reference(smollm_file: Path):
    return transformers_tokenizer(smollm_file)


def transformers_tokenizer(path: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def at_digits(text: str) -> list[str]:
    """The text cut before and after each numeric character, outside special tokens.

    transformers leaves out this first step of SmolLM's pre-tokenizer ("x  1" shows it), so its ids are asked
    for piece by piece.
    """
    special = r"<\|im_start\|>|<\|im_end\|>|<\|endoftext\|>"
    pieces: list[str] = []
    for part in re.split(f"({special})", text):
        if re.fullmatch(special, part):
            pieces.append(part)
            continue
        run = ""
        for letter in part:
            if unicodedata.category(letter).startswith("N"):
                pieces += [run, letter]
                run = ""
            else:
                run += letter
        pieces.append(run)
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize("text", TEXTS)
def test_smollm_equals_transformers(smollm_tokenizer, smollm_reference, text):
    expected = [i for piece in at_digits(text) for i in smollm_reference(piece).input_ids]
    assert smollm_tokenizer.encode(text) == expected
    assert smollm_tokenizer.decode(expected) == text
    if not re.search(r"\s\s\d|\s[½²Ⅷ٣]", text):
        assert smollm_reference(text).input_ids == expected


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40))
def test_smollm_equals_transformers_on_any_text(smollm_tokenizer, smollm_reference, text):
    expected = [i for piece in at_digits(text) for i in smollm_reference(piece).input_ids]
    assert smollm_tokenizer.encode(text) == expected
    # Some bytes of rare letters are not in this vocabulary, so the text need not come back.
    theirs = smollm_reference.decode(expected, clean_up_tokenization_spaces=False)
    assert smollm_tokenizer.decode(expected) == theirs


def test_smollm_splits_digits_from_the_spaces_before_them(smollm_tokenizer):
    """The published tokenizer cuts at digits first: two spaces stay together and the 1 stands alone."""
    assert [smollm_tokenizer.piece(i) for i in smollm_tokenizer.encode("x  12")] == ["x", "  ", "1", "2"]


def test_smollm_ids_and_rule(smollm_tokenizer, smollm_reference):
    tokenizer = smollm_tokenizer
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (1, 2, 2)
    assert tokenizer.vocab_size == len(smollm_reference) == 49152
    assert not tokenizer.adds_bos
    assert tokenizer.encode("Hi") == tokenizer.encode("Hi", prepend_bos=False)
    assert tokenizer.encode("Hi", prepend_bos=True) == [1, *tokenizer.encode("Hi")]
    assert tokenizer.encode("<|im_start|>Hi", prepend_bos=True) == [1, *tokenizer.encode("Hi")]
    assert tokenizer.piece(tokenizer.single(" Mary")) == " Mary"


def test_smollm_pieces_join_to_the_text(smollm_tokenizer):
    for text in TEXTS:
        joined = "".join(smollm_tokenizer.piece(i) for i in smollm_tokenizer.encode(text))
        raw = re.sub(r"<0x(..)>", lambda hit: chr(0xDC00 + int(hit[1], 16)), joined)
        assert raw.encode("utf-8", "surrogateescape").decode("utf-8") == text


# ---- byte-level files ----------------------------------------------------------------------------------


def words(**extra) -> dict:
    return {f"tokenizer.ggml.{key}": value for key, value in extra.items()}


@pytest.fixture(scope="module")
def trained() -> tokenizers.Tokenizer:
    """A byte-level BPE trained on the tests' own texts; id 0 is its only special token."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(byte_alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([*TEXTS, *(" ".join(TEXTS) for _ in range(3)), "12 123 1234 '' 'S I'M"], trainer)
    return backend


def byte_level(trained: tokenizers.Tokenizer, **extra) -> dict:
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [CONTROL, *[NORMAL] * (len(tokens) - 1)]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    known = {"model": "gpt2", "tokens": tokens, "token_type": types, "merges": merges, "eos_token_id": 0}
    return words(**(known | extra))


@pytest.mark.parametrize("pre", ["gpt-2", "default", "llama-bpe", "qwen2", "tekken", "gpt-4o", None])
def test_pre_tokenizers_equal_transformers(write_gguf, trained, pre):
    extra = {} if pre is None else {"pre": pre}
    path = write_gguf(byte_level(trained, **extra))
    ours, theirs = gguf_tokenizer(path), transformers_tokenizer(path)
    cased = "HelloWORLDs' a//\n/b It'S ÉCOLEéà"
    for text in [*TEXTS, "<|endoftext|>", "a<|endoftext|> b", "I'M 'S 1234567 x=12", cased]:
        assert ours.encode(text) == theirs(text).input_ids, text
        assert ours.decode(ours.encode(text)) == text


def test_pre_tokenizers_differ(write_gguf, trained):
    """Each of the names is really used: some text is split differently by each pair."""
    texts = [*TEXTS, "I'M 'S", "  12", "1234 12345", "\n\n  x", "x.\n\n"]
    ids = {}
    for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        tokenizer = gguf_tokenizer(write_gguf(byte_level(trained, pre=pre)))
        ids[pre] = str([tokenizer.encode(text) for text in texts])
    assert len(set(ids.values())) == 4


def test_pre_tokenizers_that_cut_at_capitals(write_gguf, trained):
    def cut(text: str, pre: str) -> list[str]:
        split = gguf_tokenizer(write_gguf(byte_level(trained, pre=pre))).backend.pre_tokenizer
        return [text[begin:end] for _, (begin, end) in split.pre_tokenize_str(text)]

    text = "helloWORLD's 1234//\n\nx"
    assert cut(text, "tekken") == ["hello", "WORLD", "'s", " ", "1", "2", "3", "4", "//\n\n", "x"]
    assert cut(text, "gpt-4o") == ["hello", "WORLD's", " ", "123", "4", "//\n\n", "x"]
    assert cut(text, "llama-bpe") == ["helloWORLD", "'s", " ", "123", "4", "//\n\n", "x"]
    assert cut("a/\n/", "gpt-4o") == ["a", "/\n/"] != cut("a/\n/", "llama-bpe")


def test_llama_bpe_takes_whole_words_and_adds_bos(write_gguf):
    """'abc' is a token that no merge makes: Llama 3 uses it all the same, GPT-2 does not."""
    tokens = [*sorted(byte_alphabet()), "ab", "abc", "<|bos|>"]
    base = {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": [*[NORMAL] * 258, CONTROL],
        "merges": ["a b"],
        "bos_token_id": 258,
    }
    llama = gguf_tokenizer(write_gguf(words(**base, pre="llama-bpe")))
    assert llama.encode("abc") == [258, 257]
    assert llama.adds_bos
    told = gguf_tokenizer(write_gguf(words(**base, pre="llama-bpe", add_bos_token=False)))
    assert told.encode("abc") == [257]
    gpt2 = gguf_tokenizer(write_gguf(words(**base, pre="gpt-2")))
    assert gpt2.encode("abc") == [256, tokens.index("c")]


def test_bos_and_eos_rules(write_gguf, trained):
    both = gguf_tokenizer(
        write_gguf(byte_level(trained, pre="gpt-2", bos_token_id=0, add_bos_token=True, add_eos_token=True))
    )
    inside = gguf_tokenizer(write_gguf(byte_level(trained, pre="gpt-2"))).encode("Hello world")
    assert both.encode("Hello world") == [0, *inside, 0]
    assert both.encode("Hello world", prepend_bos=False) == [*inside, 0]
    assert both.encode("Hello world", prepend_bos=True) == [0, *inside, 0]
    assert both.encode("<|endoftext|>Hello world", prepend_bos=True) == [0, *inside, 0]


# ---- SentencePiece files -------------------------------------------------------------------------------

PIECES = ["▁", "t", "h", "e", "a", "n", "d", "o", "r", "s", "▁t", "he", "▁the", "an", "nd", "and", "▁a", "▁and"]
PIECES += ["▁o", "or", "▁or", "▁s", "th", "at", "▁that", "ha", "hat", "es", "▁▁", "▁▁▁▁", "é", "and▁the"]


def sentencepiece(**extra) -> dict:
    """Scores fall with the place in the list from the first piece of two letters on; letters score worst."""
    scores = [-100.0 - i if len(piece) == 1 else -float(i) for i, piece in enumerate(PIECES)]
    known = {
        "model": "llama",
        "tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *PIECES, "<tool>"],
        "scores": [*[0.0] * 259, *scores, 0.0],
        "token_type": [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(PIECES), USER_DEFINED],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    return words(**(known | extra))


def greedy(text: str, metadata: dict, prefix: bool = True) -> list[int]:
    """SentencePiece's BPE said directly: join the neighbours whose piece scores best, the leftmost of equals."""
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    score = {piece: scores[tokens.index(piece)] for piece in PIECES}
    parts = list(("▁" if prefix and text else "") + text.replace(" ", "▁"))
    while True:
        ways = [(-score[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in score]
        if not ways:
            break
        _, i = min(ways)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    spelt = [[part] if part in score else [f"<0x{b:02X}>" for b in part.encode()] for part in parts]
    return [tokens.index(token) for token_list in spelt for token in token_list]


SPM_TEXTS = ["", "the", "the and that hats", "tha", " the", "  the", "the  end ", "    ", "é日😀\n\tx", "oreand the"]


@pytest.mark.parametrize("text", SPM_TEXTS)
def test_sentencepiece_by_scores(write_gguf, text):
    metadata = sentencepiece()
    path = write_gguf(metadata)
    tokenizer = gguf_tokenizer(path)
    assert tokenizer.encode(text) == [1, *greedy(text, metadata)]
    assert tokenizer.decode(tokenizer.encode(text, prepend_bos=False)) == text
    if not text.startswith(" "):  # there transformers adds no space of its own; SentencePiece always does
        assert transformers_tokenizer(path)(text).input_ids == tokenizer.encode(text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="thean dorsé\n日", max_size=30))
def test_sentencepiece_by_scores_on_any_text(spm, text):
    tokenizer, metadata = spm
    assert tokenizer.encode(text) == [1, *greedy(text, metadata)]
    assert tokenizer.decode(tokenizer.encode(text, prepend_bos=False)) == text


@pytest.fixture(scope="module")
def spm(tmp_path_factory) -> tuple[Tokenizer, dict]:
    metadata = sentencepiece()
    file = GGUFFile(Path("memory.gguf"), metadata, {}, None)  # type: ignore[arg-type]
    return gguf_tokenizer(file), metadata


def test_sentencepiece_as_llama_2_was_published(spm):
    """The same vocabulary with the normalizer of Llama 2's tokenizer.json, special tokens in the text too."""
    tokenizer, _ = spm
    published = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    published.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    published.pre_tokenizer = None
    published.decoder = decoders.ByteLevel()
    for text in [*SPM_TEXTS, "</s>the", "the</s> and<s>that", "<tool>the<unk>"]:
        assert tokenizer.encode(text) == published.encode(text).ids


def test_add_space_prefix(write_gguf):
    metadata = sentencepiece(add_space_prefix=False)
    tokenizer = gguf_tokenizer(write_gguf(metadata))
    for text in SPM_TEXTS:
        assert tokenizer.encode(text, prepend_bos=False) == greedy(text, metadata, prefix=False)
        assert tokenizer.decode(tokenizer.encode(text, prepend_bos=False)) == text


def test_sentencepiece_bos_rule(write_gguf):
    assert gguf_tokenizer(write_gguf(sentencepiece())).adds_bos
    told = gguf_tokenizer(write_gguf(sentencepiece(add_bos_token=False)))
    assert not told.adds_bos
    assert told.encode("the", prepend_bos=True) == [1, *told.encode("the")]


def test_sentencepiece_pieces(spm):
    tokenizer, metadata = spm
    index = metadata["tokenizer.ggml.tokens"].index
    assert tokenizer.piece(index("▁the")) == " the"
    assert tokenizer.piece(index("<0x0A>")) == "\n"
    assert tokenizer.piece(index("<0xE2>")) == "<0xE2>"
    assert tokenizer.piece(1) == "<s>"
    assert tokenizer.single(" the") == index("▁the")
    assert tokenizer.single("he") == index("he")
    assert tokenizer.single("<tool>") == index("<tool>")
    with pytest.raises(MetricError, match=r"'the' is not one token: it splits into 'th?', 'h?e'; ' the', with"):
        tokenizer.single("the")


def test_user_defined_tokens_are_found_but_not_special(write_gguf):
    tokenizer = gguf_tokenizer(write_gguf(sentencepiece()))
    tool = tokenizer.vocab_size - 1
    assert tool in tokenizer.encode("the<tool>and")
    assert not tokenizer.backend.get_added_tokens_decoder()[tool].special
    assert tokenizer.backend.get_added_tokens_decoder()[1].special


def test_control_and_unused_pieces(write_gguf):
    """'<ctl>', a control token without a role, is found in text; 'hea', marked unused, is never made."""
    metadata = sentencepiece()
    for token, score, kind in (("<ctl>", 0.0, CONTROL), ("hea", -0.5, UNUSED)):
        metadata["tokenizer.ggml.tokens"].append(token)
        metadata["tokenizer.ggml.scores"].append(score)
        metadata["tokenizer.ggml.token_type"].append(kind)
    tokenizer = gguf_tokenizer(write_gguf(metadata))
    control, unused = tokenizer.vocab_size - 2, tokenizer.vocab_size - 1
    assert control in tokenizer.encode("the<ctl>a")
    assert unused not in tokenizer.encode("dhea")
    metadata["tokenizer.ggml.token_type"][unused] = NORMAL
    assert unused in gguf_tokenizer(write_gguf(metadata)).encode("dhea")


def test_without_bytes_the_unknown_token_stands_in(write_gguf):
    metadata = sentencepiece(
        tokens=["<unk>", "<s>", "▁", "a"],
        scores=[0.0, 0.0, -1.0, -2.0],
        token_type=[UNKNOWN, CONTROL, NORMAL, NORMAL],
        eos_token_id=1,
    )
    assert gguf_tokenizer(write_gguf(metadata)).encode("a日本a") == [1, 2, 3, 0, 3]


# Gemma's files: spaces and line ends in a row are tokens of their own, and no space stands in front of a text.
GEMMA_RUNS = ["\n", "\n\n", "  ", "   ", "    "]


def gemma(**extra) -> dict:
    pieces = sorted(set(PIECES) - {"▁▁", "▁▁▁▁"}, key=lambda piece: (len(piece) == 1, PIECES.index(piece)))
    known = {
        "tokens": [
            "<pad>",
            "<eos>",
            "<bos>",
            "<unk>",
            *GEMMA_RUNS,
            *(f"<0x{byte:02X}>" for byte in range(256)),
            *pieces,
        ],
        "scores": [-1000.0] * (9 + 256) + [-float(place) for place in range(len(pieces))],
        "token_type": [*[CONTROL] * 3, UNKNOWN, *[USER_DEFINED] * 5, *[BYTE] * 256, *[NORMAL] * len(pieces)],
        "bos_token_id": 2,
        "eos_token_id": 1,
        "unknown_token_id": 3,
        "padding_token_id": 0,
        "add_bos_token": True,
        "add_space_prefix": False,
    }
    return sentencepiece(**(known | extra))


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_gemma_equals_transformers(write_gguf, architecture):
    path = write_gguf(gemma(), architecture=architecture)
    ours, theirs = gguf_tokenizer(path), transformers_tokenizer(path)
    for text in [*SPM_TEXTS, "the\nand\n\n\nthat", "a  the   and    hats", "the<eos> and", "é\t日 the"]:
        assert ours.encode(text) == theirs(text).input_ids, text
        assert ours.decode(ours.encode(text, prepend_bos=False)) == text


def test_phi3_equals_transformers(write_gguf):
    """Which has no say in the spaces after special tokens, since only the name of the model gives them away."""
    path = write_gguf(sentencepiece(), architecture="phi3")
    ours, theirs = gguf_tokenizer(path), transformers_tokenizer(path)
    for text in [*SPM_TEXTS, "the<tool>and", "the</s> and"]:
        assert ours.encode(text) == theirs(text).input_ids, text


def test_special_tokens_of_phi3_swallow_the_space_after_them(write_gguf):
    named = gguf_tokenizer(write_gguf(sentencepiece() | {"general.name": "Phi 3.5"}))
    assert named.encode("<tool>\n the") != named.encode("<tool>the")
    for name in ("Phi-3-mini", "phi3"):
        tokenizer = gguf_tokenizer(write_gguf(sentencepiece() | {"general.name": name}))
        assert tokenizer.encode("<tool>\n the</s> and") == tokenizer.encode("<tool>the</s>and")
        assert tokenizer.encode("<s> the") != tokenizer.encode("<s>the")


# ---- files that are wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"pre": "llama-bqe"}, r"pre-tokenizer 'llama-bqe'.*nearest are: llama-bpe"),
        ({"model": "bert"}, r"kind 'bert'; 'gpt2' and 'llama'"),
        ({"merges": ["a b c"]}, r"merge 'a b c', which is no pair"),
        ({"merges": ["zz yy"]}, r"merges that do not fit its tokens"),
        ({"token_type": [1, 2]}, r"gives 2 tokenizer\.ggml\.token_type to"),
        ({"bos_token_id": 10**6}, r"bos_token_id 1000000, outside its"),
        ({"bos_token_id": "x"}, r"bos_token_id as 'x', not as int"),
        ({"tokens": [1, 2]}, r"tokens as int, not str"),
        ({"tokens": ["a", "b", "a"], "token_type": [1, 1, 1]}, r"token 'a' twice"),
    ],
)
def test_wrong_metadata(write_gguf, trained, extra, said):
    with pytest.raises(LoadError, match=said):
        gguf_tokenizer(write_gguf(byte_level(trained, **extra)))


def test_no_tokenizer(write_gguf):
    with pytest.raises(LoadError, match=r"no tokenizer\.ggml\.tokens"):
        gguf_tokenizer(write_gguf({"a": 1}))
    assert read_gguf_tokenizer(GGUFFile.open(write_gguf({"a": 1}))) is None
    assert read_gguf_tokenizer(GGUFFile.open(write_gguf(words(model="none")))) is None
    assert read_gguf_tokenizer(GGUFFile.open(write_gguf(sentencepiece()))) is not None
    with pytest.raises(LoadError, match="kind 'bert'"):
        read_gguf_tokenizer(GGUFFile.open(write_gguf(sentencepiece(model="bert"))))


def test_scores_are_needed(write_gguf):
    metadata = sentencepiece()
    del metadata["tokenizer.ggml.scores"]
    with pytest.raises(LoadError, match=r"no tokenizer\.ggml\.scores"):
        gguf_tokenizer(write_gguf(metadata))
