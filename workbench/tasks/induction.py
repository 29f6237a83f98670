"""Induction: random words, said again (Elhage et al. 2021; Olsson et al. 2022, arXiv 2209.11895).

After "... A B ... A" comes B, for no reason but that it came there before.
"""

from __future__ import annotations

from math import perm
from random import Random

from ..errors import InputError
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._base import Pairs
from ._checks import check_tokenizer
from ._pair import Marked, Pair, pair_of, single_words
from ._sampling import check_whole, distinct

WORDS = """
    air animal apple arm army art baby bag ball band bank base bath bed bell bird block blood board boat body bone book
    box boy branch bread bridge brother butter camp card cat chain chair cheese child church circle city clock cloth
    cloud coat coffee copper corn cotton cow cup dance desert desk dinner doctor dog door dress drink dust ear earth egg
    engine evening eye face family farm father field finger fire fish flag floor flower food foot forest friend fruit
    garden girl glass gold grass ground guitar hair hand hat head heart hill horse hospital house ice iron island key
    king kitchen knife lake lamp leaf leg letter light line lion lunch machine map market metal milk mirror money moon
    morning mother mountain mouth music nail neck night nose ocean office oil page paint paper park pen piano picture
    plane plant plate pocket poem poet prince queen rain river road rock roof room root salt sand school sea shell ship
    shirt shoe silver sister skin sky smoke snow soap soil soldier song soup spring square star station steel stone
    street sugar summer sun table tail teacher test thread ticket tongue tooth town train tree uncle valley village wall
    water wave wheel wife wind window wine wing winter wire wood wool
""".split()


@checked_keywords
def induction(tokenizer: Tokenizer, n: int = 32, seed: int = 0, length: int = 10) -> Pairs:
    """Which word followed the last one where that stood before.

    A sequence of `length` different random words and the same again without its last, which is the answer. In the
    corrupted prompt that last word of the first time is another, and so is the answer: the texts differ in this one
    token.

    Labels: "first" where the prompt's last word stood before, "follower" the word after it, "end". The measure is the
    logit difference of the two followers. Words are those of WORDS that are one token after a space; a prompt is
    2 length - 1 tokens, beside those that the tokenizer adds. n pairs, all different; InputError where there are not as
    many.
    """
    check_tokenizer(tokenizer)
    check_whole("length", length, 2)
    words = single_words(tokenizer, WORDS, "word", length + 1)
    lead = _lead(tokenizer, words)

    def draw(random: Random) -> tuple[str, ...]:
        return tuple(random.sample(words, length + 1))

    choices = distinct(draw, n, seed, perm(len(words), length + 1))
    return Pairs.of([_pair(choice, lead, tokenizer) for choice in choices], tokenizer)


def _pair(choice: tuple[str, ...], lead: str, tokenizer: Tokenizer) -> Pair:
    *words, follower, instead = choice
    clean, corrupted = (_parts(words, last, lead) for last in (follower, instead))
    pair = pair_of(tokenizer, clean, corrupted, [" " + follower], [" " + instead])
    for text, last in ((pair.clean, follower), (pair.corrupted, instead)):
        if not _is_spelt(text, [*words, last, *words], tokenizer):
            raise InputError(f"this tokenizer does not read each word of {text!r} as one token")
    return pair


def _parts(words: list[str], follower: str, lead: str) -> list[str | Marked]:
    """Words that end with the one which is asked for, what follows it, and the words again."""
    spelt = [lead + words[0], *(" " + word for word in (*words[1:], follower, *words))]
    at = len(words)
    marked = [Marked("first", spelt[at - 1]), Marked("follower", spelt[at])]
    return [*spelt[: at - 1], *marked, *spelt[at + 1 :]]


def _lead(tokenizer: Tokenizer, words: list[str]) -> str:
    """What a text starts with so that its first word is the token which that word is after a space: nothing, where
    the vocabulary puts the space there itself."""
    for lead in ("", " "):
        if _is_spelt(lead + " ".join(words[:2]), words[:2], tokenizer):
            return lead
    raise InputError(f"this tokenizer reads {words[0]!r} otherwise at the start of a text than after a space")


def _is_spelt(text: str, words: list[str], tokenizer: Tokenizer) -> bool:
    return tokenizer.encode(text) == tokenizer.encode("") + [tokenizer.single(" " + word) for word in words]
