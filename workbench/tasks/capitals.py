"""Capitals: a fact of one country against the same fact of another."""

from __future__ import annotations

import re
from random import Random
from typing import NamedTuple

from ..errors import InputError
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._base import Pairs
from ._checks import check_tokenizer
from ._pair import Marked, Pair, pair_of, single_words
from ._sampling import distinct

TEMPLATES = (
    "The capital of [COUNTRY] is the city of",
    "The capital city of [COUNTRY] is called",
    "As everybody knows, the capital of [COUNTRY] is",
)
# Those whose capital is one word and undisputed, and not in the country's own name as Mexico's is.
_CAPITALS = """
    Afghanistan: Kabul, Albania: Tirana, Angola: Luanda, Armenia: Yerevan, Australia: Canberra, Austria: Vienna,
    Azerbaijan: Baku, Bangladesh: Dhaka, Belarus: Minsk, Belgium: Brussels, Bulgaria: Sofia, Canada: Ottawa,
    Chile: Santiago, China: Beijing, Croatia: Zagreb, Cuba: Havana, Cyprus: Nicosia, Denmark: Copenhagen,
    Egypt: Cairo, Estonia: Tallinn, Finland: Helsinki, France: Paris, Germany: Berlin, Ghana: Accra, Greece: Athens,
    Hungary: Budapest, Iceland: Reykjavik, Indonesia: Jakarta, Iran: Tehran, Iraq: Baghdad, Ireland: Dublin,
    Italy: Rome, Jamaica: Kingston, Japan: Tokyo, Jordan: Amman, Kenya: Nairobi, Latvia: Riga, Lebanon: Beirut,
    Libya: Tripoli, Lithuania: Vilnius, Mali: Bamako, Malta: Valletta, Morocco: Rabat, Nepal: Kathmandu,
    Nigeria: Abuja, North Korea: Pyongyang, Norway: Oslo, Oman: Muscat, Pakistan: Islamabad, Peru: Lima,
    Poland: Warsaw, Portugal: Lisbon, Qatar: Doha, Romania: Bucharest, Russia: Moscow, Saudi Arabia: Riyadh,
    Senegal: Dakar, Serbia: Belgrade, Slovakia: Bratislava, Slovenia: Ljubljana, Somalia: Mogadishu,
    South Korea: Seoul, Spain: Madrid, Sudan: Khartoum, Sweden: Stockholm, Switzerland: Bern, Syria: Damascus,
    Thailand: Bangkok, Turkey: Ankara, Uganda: Kampala, Ukraine: Kyiv, Uruguay: Montevideo, Venezuela: Caracas,
    Vietnam: Hanoi, Zambia: Lusaka, Zimbabwe: Harare, the Czech Republic: Prague, the Netherlands: Amsterdam,
    the Philippines: Manila, the United Kingdom: London, the United States: Washington
"""
CAPITALS: dict[str, str] = dict(re.findall(r"(\w[\w ]*): (\w+)", _CAPITALS))


class Choice(NamedTuple):
    template: str
    country: str
    other: str


@checked_keywords
def capitals(tokenizer: Tokenizer, n: int = 32, seed: int = 0) -> Pairs:
    """The capital of a country, against that of the country which stands there in the corrupted prompt.

    The two countries are equally many tokens, and the texts differ in these. Labels: "country", its last token, and
    "end". The measure is the logit difference of the two capitals. Countries are those of CAPITALS whose capital is one
    token after a space. n pairs, all different; InputError where there are not as many.
    """
    check_tokenizer(tokenizer)
    known = set(single_words(tokenizer, list(CAPITALS.values()), "capital", 2))
    others = _equally_long([country for country, capital in CAPITALS.items() if capital in known], tokenizer)
    if not others:
        raise InputError(f"of {len(known)} countries no two are equally many tokens for this tokenizer")

    def draw(random: Random) -> Choice:
        country = random.choice(list(others))
        return Choice(random.choice(TEMPLATES), country, random.choice(others[country]))

    choices = distinct(draw, n, seed, len(TEMPLATES) * sum(map(len, others.values())))
    return Pairs.of([_pair(choice, tokenizer) for choice in choices], tokenizer)


def _equally_long(countries: list[str], tokenizer: Tokenizer) -> dict[str, list[str]]:
    """For each country those others that are as many tokens; a country without any is left out."""
    before = TEMPLATES[0].split("[COUNTRY]")[0]
    ids = {country: tokenizer.encode(before + country) for country in countries}
    others = {
        one: [other for other in countries if len(ids[other]) == len(ids[one]) and ids[other] != ids[one]]
        for one in countries
    }
    return {country: fitting for country, fitting in others.items() if fitting}


def _pair(choice: Choice, tokenizer: Tokenizer) -> Pair:
    before, after = choice.template.split(" [COUNTRY]")
    clean, corrupted = ([before, Marked("country", " " + name), after] for name in (choice.country, choice.other))
    answers = ([" " + CAPITALS[name]] for name in (choice.country, choice.other))
    return pair_of(tokenizer, clean, corrupted, *answers)
