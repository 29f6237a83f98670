"""Token text made visible: the one rule for every figure, table and widget.

A token is untrusted text, and much of it cannot be seen: " the" looks like "the", "\\n" like nothing.
`visible` gives each such character a mark; `escaped` then makes the text literal for plotly, which reads
a small HTML of its own. The widgets are sent text that `visible` has been through already.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ..errors import InputError, KindError, count

MARKS = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
EMPTY = "∅"

# Control, format (zero-width, direction), private, unassigned, and the separators that are no plain space.
_UNSEEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"}
_RIGHT_TO_LEFT = {"R", "AL"}
_ISOLATE, _POP = "\u2068", "\u2069"

# What plotly would take as a tag, an entity, TeX or a template.
_PLOTLY = str.maketrans({c: f"&#{ord(c)};" for c in "<>&$%{}\"'"})


def visible(token: str) -> str:
    r"""The token with a mark for every character that cannot be seen, on one line.

    >>> visible(" Mary"), visible("\n\n"), visible("a\u200bb"), visible("")
    ('␣Mary', '↵↵', 'a\\u200bb', '∅')
    """
    if not token:
        return EMPTY
    text = "".join(_mark(char) for char in token)
    return "◌" + text if unicodedata.combining(text[0]) else text  # an accent needs something to sit on


def _mark(char: str) -> str:
    if char in MARKS:
        return MARKS[char]
    if unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escaped(text: str) -> str:
    """`text` as plotly will show it letter by letter; right-to-left text is isolated from what surrounds it."""
    literal = text.translate(_PLOTLY)
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return _ISOLATE + literal + _POP
    return literal


def shortened(text: str, length: int) -> str:
    """At most `length` characters, the last an ellipsis where something was cut."""
    return text if len(text) <= length else text[: length - 1] + "…"


def token_list(tokens: Iterable[str], expected: int, what: str) -> list[str]:
    """The tokens as a list of `expected` strings.

    Raises KindError for a bare string or anything that holds no strings, InputError for another count;
    `what` names the thing that the tokens label, for the sentence.
    """
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise KindError(f"tokens must be a list of strings, one per position, not {type(tokens).__name__}")
    listed = list(tokens)
    for token in listed:
        if not isinstance(token, str):
            raise KindError(f"tokens must be strings, and one of them is {type(token).__name__}")
    if len(listed) != expected:
        raise InputError(f"{what} has {count(expected, 'position')} and {count(len(listed), 'token')} came")
    return listed
