"""Tokenizers made by hand. Words of the tasks are one token each after a space, all others split into letters.

byte_level     as GPT-2: " Mary"; the year 1732 is " 17|32"
digits         the same with each digit a token, as Qwen2: " |1|7|3|2"
thirds         the same with digits in threes, as Llama 3: " |173|2"
sentencepiece  as Llama 2: a space put before every text, BOS, each digit a token
whole_words    one token for each word and for all that are unknown; spaces are lost
"""

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from workbench.tasks.capitals import CAPITALS
from workbench.tasks.induction import WORDS
from workbench.tasks.ioi import NAMES
from workbench.tokenizer import Tokenizer

ENDINGS = [f"{year:02}" for year in range(100)]
CENTURIES = [str(century) for century in range(11, 18)]
SOME = ["France", "Spain", "Peru", "Italy", "Zambia", "war", "siege", "to", "the", "is"]  # others split


def merges_of(words, space):
    """Each word letter by letter from its space on, so that nothing merges inside of other words."""
    merges = {}
    for word in words:
        start = space
        for letter in word:
            merges[start, letter] = None
            start += letter
    return list(merges)


def bpe(alphabet, merges, **given):
    tokens = [*alphabet, *("".join(merge) for merge in merges)]
    vocab = {token: i for i, token in enumerate(["<s>", "</s>", *dict.fromkeys(tokens)])}
    return models.BPE(vocab=vocab, merges=merges, **given)


WANTED = [*NAMES, *WORDS, *CAPITALS.values(), *SOME]


def byte_level(words=WANTED, *, centuries=CENTURIES, endings=ENDINGS, more=(), first=None, adds_bos=False):
    merges = [*merges_of([*centuries, *words], "Ġ"), *map(tuple, endings), *more]
    backend = tokenizers.Tokenizer(bpe(sorted(pre_tokenizers.ByteLevel.alphabet()), merges))
    own = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = own if first is None else pre_tokenizers.Sequence([first, own])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    return Tokenizer(backend, 0, 1, adds_bos=adds_bos)


def digits(words=WANTED, adds_bos=False):
    return byte_level(words, first=pre_tokenizers.Digits(individual_digits=True), adds_bos=adds_bos)


def thirds():
    split = pre_tokenizers.Split(tokenizers.Regex(r"\d{1,3}"), "isolated")
    return byte_level(more=[(two, three) for two in ENDINGS for three in "0123456789"], first=split)


def sentencepiece(words=WANTED, more=()):
    letters = [chr(code) for code in range(33, 127)]
    merges = [*merges_of(words, "▁"), *more]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    backend = tokenizers.Tokenizer(bpe(["▁", *letters, *bytes_], merges, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["<s>", "</s>"])
    return Tokenizer(backend, 0, 1, adds_bos=True)


def whole_words(words, unknown="[UNK]"):
    """One id for each word, and one for all others."""
    vocab = {word: i for i, word in enumerate(dict.fromkeys([unknown, *words]))}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(backend, None, None, adds_bos=False)


def pieces(tokenizer, text):
    return [tokenizer.piece(i) for i in tokenizer.encode(text)]
