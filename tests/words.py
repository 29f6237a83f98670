"""A tokenizer of whole words, one id each: " a" is one token, "a b" is two."""

import tokenizers
from random_models import VOCAB

from workbench.tokenizer import Tokenizer

WORDS = [chr(ord("a") + index) for index in range(VOCAB)]


def word_tokenizer() -> Tokenizer:
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return Tokenizer(backend, None, None, adds_bos=False)
