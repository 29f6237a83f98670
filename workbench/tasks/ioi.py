"""Indirect object identification (Wang et al. 2022, arXiv 2211.00593).

"When Mary and John went to the store, John gave a drink to" goes on with " Mary": the indirect object (IO), and not the
subject (S) that is named twice.
"""

from __future__ import annotations

import re
from math import perm
from random import Random
from typing import NamedTuple

from ..errors import InputError, nearest
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._base import Pairs
from ._checks import check_tokenizer
from ._pair import Marked, Pair, pair_of, single_words
from ._sampling import distinct

# Appendix E of the paper, each without the answer at its end: A is the indirect object, B the subject. This is the
# order BABA; in ABBA the first two names change places.
TEMPLATES = (
    "Then, [B] and [A] went to the [PLACE]. [B] gave a [OBJECT] to",
    "Then, [B] and [A] had a lot of fun at the [PLACE]. [B] gave a [OBJECT] to",
    "Then, [B] and [A] were working at the [PLACE]. [B] decided to give a [OBJECT] to",
    "Then, [B] and [A] were thinking about going to the [PLACE]. [B] wanted to give a [OBJECT] to",
    "Then, [B] and [A] had a long argument, and afterwards [B] said to",
    "After [B] and [A] went to the [PLACE], [B] gave a [OBJECT] to",
    "When [B] and [A] got a [OBJECT] at the [PLACE], [B] decided to give it to",
    "When [B] and [A] got a [OBJECT] at the [PLACE], [B] decided to give the [OBJECT] to",
    "While [B] and [A] were working at the [PLACE], [B] gave a [OBJECT] to",
    "While [B] and [A] were commuting to the [PLACE], [B] gave a [OBJECT] to",
    "After the lunch, [B] and [A] went to the [PLACE]. [B] gave a [OBJECT] to",
    "Afterwards, [B] and [A] went to the [PLACE]. [B] gave a [OBJECT] to",
    "Then, [B] and [A] had a long argument. Afterwards [B] said to",
    "The [PLACE] [B] and [A] went to had a [OBJECT]. [B] gave it to",
    "Friends [B] and [A] found a [OBJECT] at the [PLACE]. [B] gave it to",
)
PLACES = "store garden restaurant school hospital office house station".split()
OBJECTS = "ring kiss bone basketball computer necklace drink snack".split()
NAMES = """
    Aaron Adam Alan Alex Alice Amy Andrew Anna Anne Anthony Arthur Ben Bill Bob Brian Carl Carol Charles Chris Claire
    Daniel David Diana Donald Edward Elizabeth Emily Emma Eric Frank Fred George Grace Graham Harry Helen Henry Ian
    Jack Jacob James Jane Jason Jean Jeff Jennifer Jessica Jim Joe John Jonathan Joseph Julia Karen Kate Keith Kelly
    Kevin Kim Kyle Larry Laura Lewis Lisa Louis Lucy Luke Maria Mark Martin Mary Matthew Max Michael Michelle Mike
    Nancy Nick Nicole Oliver Oscar Patrick Paul Peter Philip Rachel Ralph Rebecca Richard Robert Roger Rose Roy Ryan
    Sam Sarah Scott Sean Simon Stephen Steve Steven Susan Thomas Tim Tom Tony Victor Victoria Walter William
""".split()
ORDERS = {"ABBA": ("ABBA",), "BABA": ("BABA",), "both": ("ABBA", "BABA")}
N_OTHERS = {"swap": 0, "abc": 3}  # names that stand in the corrupted prompt only


class Choice(NamedTuple):
    template: str
    order: str
    names: tuple[str, ...]  # the indirect object, the subject, and those of the corrupted prompt only
    place: str
    object: str


@checked_keywords
def ioi(tokenizer: Tokenizer, n: int = 32, seed: int = 0, corruption: str = "swap", order: str = "both") -> Pairs:
    """Who was given it: the name that stands in the prompt once, against the one that stands there twice.

    corruption: "swap" names the indirect object where the subject stands the second time, so that the answer is the
                subject, and the texts differ in one token. "abc" puts three other names in the place of the three,
                which leaves no answer (the paper's p_ABC).
    order:      "ABBA" names the indirect object first, "BABA" the subject; "both" draws one for each pair.

    Labels: "io" and "s1" where the two are first named, "s1+1" the token after, "s2" where the subject is named again,
    "end". The measure is the logit difference. Names are those of NAMES that are one token after a space. n pairs, all
    different; InputError where there are not as many.
    """
    check_tokenizer(tokenizer)
    if not isinstance(corruption, str) or corruption not in N_OTHERS:
        raise InputError(f"corruption is {corruption!r}; {nearest(str(corruption), N_OTHERS)}")
    if not isinstance(order, str) or order not in ORDERS:
        raise InputError(f"order is {order!r}; {nearest(str(order), ORDERS)}")
    n_names = 2 + N_OTHERS[corruption]
    names = single_words(tokenizer, NAMES, "name", n_names)

    def draw(random: Random) -> Choice:
        template = random.choice(TEMPLATES)
        return Choice(
            template,
            random.choice(ORDERS[order]),
            tuple(random.sample(names, n_names)),
            random.choice(PLACES) if "[PLACE]" in template else "",
            random.choice(OBJECTS) if "[OBJECT]" in template else "",
        )

    fillings = sum(
        (len(PLACES) if "[PLACE]" in template else 1) * (len(OBJECTS) if "[OBJECT]" in template else 1)
        for template in TEMPLATES
    )
    choices = distinct(draw, n, seed, fillings * len(ORDERS[order]) * perm(len(names), n_names))
    return Pairs.of([_pair(choice, tokenizer) for choice in choices], tokenizer)


def _pair(choice: Choice, tokenizer: Tokenizer) -> Pair:
    io, s, *others = choice.names
    clean, corrupted = _parts(choice, io, s, s), _parts(choice, *(others or (io, s, io)))
    pair = pair_of(tokenizer, clean, corrupted, [" " + io], [" " + s])
    positions = pair.labels | {"s1+1": pair.labels["s1"] + 1}
    return pair._replace(labels={name: positions[name] for name in ("io", "s1", "s1+1", "s2", "end")})


def _parts(choice: Choice, io: str, s1: str, s2: str) -> list[str | Marked]:
    """A template with its words, the names marked; each word takes the space before it along."""
    marks = [Marked("s1", " " + s1), Marked("io", " " + io), Marked("s2", " " + s2)]
    if choice.order == "ABBA":
        marks[:2] = marks[1::-1]
    filled = choice.template.replace("[PLACE]", choice.place).replace("[OBJECT]", choice.object)
    texts = re.split(r" \[[AB]\]", filled)
    return [texts[0], *(part for mark, text in zip(marks, texts[1:], strict=True) for part in (mark, text))]
