"""Greater than (Hanna et al. 2023, arXiv 2305.00586).

"The war lasted from the year 1732 to the year 17" goes on with a year's last two digits that are greater than 32.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ..errors import InputError
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._base import Pairs
from ._checks import check_tokenizer
from ._pair import Marked, Pair, goes_on, pair_of, singles
from ._sampling import distinct

# What may last for years.
NOUNS = """
    affair agreement alliance boycott campaign case challenge clash conflict conspiracy construction contract crisis
    decline deal development disagreement dispute drought dynasty effort employment epidemic exchange expansion
    expedition experiment famine feud friendship growth hostility illness imprisonment increase invasion investigation
    journey kingdom marriage mission modernization negotiation occupation operation outbreak partnership patrol
    persecution pilgrimage plague plan practice process program project pursuit quest rebellion reform reign
    relationship restoration revolt rise rivalry romance rule sanctions search shift siege slump struggle study survey
    therapy tour tradition treaty trial truce unrest voyage war work
""".split()
CENTURIES = range(11, 18)

Digits = tuple[str, ...]  # a year's last two, as the tokens that they are: ("32",) or ("3", "2")
FORMS: list[tuple[list[Digits], list[str]]] = [  # endings of start years, and what may be an answer
    ([(f"{year:02}",) for year in range(2, 99)], [f"{year:02}" for year in range(100)]),
    ([tuple(str(year)) for year in range(10, 90)], list("0123456789")),
]


class Choice(NamedTuple):
    noun: str
    century: int
    digits: Digits


@checked_keywords
def greater_than(tokenizer: Tokenizer, n: int = 32, seed: int = 0) -> Pairs:
    """Which year it lasted to: the probability of later ones less that of others.

    The paper's form is for a tokenizer that makes a year's last two digits a token, as GPT-2's does. Start years are
    XXYY, XX 11 to 17 and YY 02 to 98, where they split into XX and YY. Correct answers are the two digits above YY,
    incorrect ones those up to YY.

    Where each digit is a token (Llama 2, SmolLM2) the answer is the next digit, the tens. Correct are the digits above
    the start year's tens, incorrect those below; the same one is left out, since the units decide about it. Tens are 1
    to 8, so that there are some of both.

    The corrupted prompt starts in XX01, than which nearly every year is later. No answer is right there that was wrong
    before: the measure, the sum of the correct probabilities less that of the incorrect, goes down and need not change
    its sign.

    Labels: "noun", the last token of what lasts; "start_year", the last of the start year; with single digits also
    "start_tens"; "end". n pairs, all different; InputError where there are not as many, or where years split otherwise.
    """
    check_tokenizer(tokenizer)
    for endings, numbers in FORMS:
        numbers = singles(tokenizer, numbers)
        if starts := _starts(tokenizer, endings, numbers):
            break
    else:
        shown = ", ".join(repr(tokenizer.piece(i)) for i in tokenizer.encode(_before("war", 17) + "32"))
        raise InputError(f"a year's last two digits are neither one token nor one each for this tokenizer: {shown}")

    def draw(random: Random) -> Choice:
        return Choice(random.choice(NOUNS), *random.choice(starts))

    choices = distinct(draw, n, seed, len(NOUNS) * len(starts))
    return Pairs.of([_pair(choice, numbers, tokenizer) for choice in choices], tokenizer, "prob_diff")


def _starts(tokenizer: Tokenizer, endings: list[Digits], numbers: list[str]) -> list[tuple[int, Digits]]:
    """Centuries and endings of start years which are the tokens that they are meant to be, as is the year XX01, and
    which have answers of both kinds."""

    def reads(century: int, digits: Digits) -> bool:
        return goes_on(tokenizer, _before("war", century), digits)

    endings = [digits for digits in endings if all(_answers(digits, numbers))]
    centuries = [century for century in CENTURIES if endings and reads(century, _first_year(endings[0]))]
    return [(century, digits) for century in centuries for digits in endings if reads(century, digits)]


def _first_year(digits: Digits) -> Digits:
    """01, in as many tokens."""
    return ("01",) if len(digits) == 1 else ("0", "1")


def _answers(digits: Digits, numbers: list[str]) -> tuple[list[str], list[str]]:
    """Correct and incorrect ones: the same number is incorrect where it is all of the ending."""
    first, *units = digits
    before = [number for number in numbers if number < first or (number == first and not units)]
    return [number for number in numbers if number > first], before


def _pair(choice: Choice, numbers: list[str], tokenizer: Tokenizer) -> Pair:
    clean, corrupted = _parts(*choice), _parts(choice.noun, choice.century, _first_year(choice.digits))
    return pair_of(tokenizer, clean, corrupted, *_answers(choice.digits, numbers))


def _parts(noun: str, century: int, digits: Digits) -> list[str | Marked]:
    labels = ("start_year",) if len(digits) == 1 else ("start_tens", "start_year")
    marked = [Marked(label, digit) for label, digit in zip(labels, digits, strict=True)]
    return ["The", Marked("noun", f" {noun}"), f" lasted from the year {century}", *marked, f" to the year {century}"]


def _before(noun: str, century: int) -> str:
    """The text up to the start year's last two digits."""
    return f"The {noun} lasted from the year {century}"
