"""The language's tokenizer, in the file that transformers loads without code of ours."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from ridgefill.hybrid.words import NUMBER, PAD, START, UNKNOWN, VOCABULARY


def make_tokenizer(context: int) -> PreTrainedTokenizerFast:
    """One token a word, a digit, or a mark; the start token in front. context: longest prompt in tokens.

    Decoding gives the text back, numbers in one piece.
    """
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Replace("\n", " ")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(NUMBER, prepend_scheme="first"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Punctuation("isolated"),
        ]
    )
    backend.decoder = decoders.Metaspace(NUMBER, prepend_scheme="first")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, VOCABULARY[START])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=START, unk_token=UNKNOWN, pad_token=PAD, model_max_length=context
    )
