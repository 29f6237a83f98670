import pytest

from workbench.errors import InputError, KindError
from workbench.figures.tokens import escaped, shortened, token_list, visible


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "␣the"),
        ("the", "the"),
        ("\n", "↵"),
        ("\r\n", "␍↵"),
        ("\t", "⇥"),
        ("", "∅"),
        ("a\u200bb", "a\\u200bb"),
        ("\u202eabc", "\\u202eabc"),
        ("\ufeff", "\\ufeff"),
        ("\xa0", "\\xa0"),
        ("\x00", "\\x00"),
        ("\u0301", "◌\u0301"),
        ("<0x0A>", "<0x0A>"),
        ("<s>", "<s>"),
        ("שלום", "שלום"),
        ("日本", "日本"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_every_character_can_be_seen(token, shown):
    assert visible(token) == shown


def test_no_two_of_the_common_blanks_look_alike():
    blanks = ["", " ", "  ", "\n", "\t", "\r", "\xa0", "\u200b", "\u200c", "\u2009", "\ufeff"]
    assert len({visible(blank) for blank in blanks}) == len(blanks)


@pytest.mark.parametrize("text", ["<b>x</b>", '<a href="//x">', "a&lt;b", "$x$", "%{x}", "<br>"])
def test_escaped_leaves_plotly_nothing_to_read(text):
    import html

    assert not set("<>$%{}\"'") & set(escaped(text))
    assert html.unescape(escaped(text)) == text


def test_right_to_left_text_is_isolated():
    assert escaped("שלום") == "\u2068שלום\u2069"


def test_shortened():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"


def test_token_list_says_what_came():
    assert token_list(("a", "a"), 2, "the pattern") == ["a", "a"]
    with pytest.raises(InputError, match=r"the pattern has 3 positions and 1 token came"):
        token_list(["a"], 3, "the pattern")
    with pytest.raises(KindError, match="not str"):
        token_list("abc", 3, "the pattern")
    with pytest.raises(KindError, match="one of them is int"):
        token_list([1, 2], 2, "the pattern")
