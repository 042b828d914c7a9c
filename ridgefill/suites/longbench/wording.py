"""Our own wording of the prompts, in the roles that LongBench gives them; scores are then ``longbench-style``.

Roles: say what follows, the context, say what to do, the input, the cue to answer. What the data themselves
fix is kept: a few-shot context and its input bring their own cues, references read ``Paragraph 7`` or
``unanswerable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FACTS = (
    "Several passages follow, and after them a question about what they say.\n\n{context}\n\n"
    "Use the passages above to answer. Write the answer itself and nothing else.\n\n"
    "Question: {input}\nAnswer:"
)

V1: Mapping[str, str] = MappingProxyType(
    {
        "narrativeqa": (
            "A book or a film script follows, and after it a question about its story.\n\n{context}\n\n"
            "Use the story above to answer in a few words, without giving reasons.\n\nQuestion: {input}\n\nAnswer:"
        ),
        "qasper": (
            "A research paper follows, and after it a question about it.\n\n{context}\n\n"
            "Use the paper above to answer in a few words or one sentence, without giving reasons. To a question "
            'that asks whether something is so, reply with "yes" or "no". Reply "unanswerable" when the paper '
            "does not tell.\n\nQuestion: {input}\n\nAnswer:"
        ),
        "multifieldqa_en": (
            "A text follows, and after it a question about it.\n\n{context}\n\n"
            "Use the text above to answer shortly. Write the answer itself and nothing else.\n\n"
            "Question: {input}\nAnswer:"
        ),
        "multifieldqa_zh": (
            "下面先给出一篇文章，文章之后有一个问题。\n\n{context}\n\n"
            "请根据以上文章用简短的中文作答，除答案外什么都不要写。\n\n问题：{input}\n回答："
        ),
        "hotpotqa": _FACTS,
        "2wikimqa": _FACTS,
        "musique": _FACTS,
        "dureader": (
            "下面先给出若干篇文章，文章之后有一个问题。\n\n{context}\n\n"
            "请利用以上文章的内容作答。\n\n问题：{input}\n回答："
        ),
        "gov_report": (
            "What follows was published by a public authority.\n\n{context}\n\n"
            "Sum up the whole of it in about a page.\n\nSummary:"
        ),
        "qmsum": (
            "The minutes of a meeting follow, word by word, and after them a request about the meeting.\n\n"
            "{context}\n\nUse the minutes above to reply to the request in a few sentences.\n\n"
            "Request: {input}\nReply:"
        ),
        "multi_news": (
            "Articles from different newspapers follow.\n\n{context}\n\n"
            "Sum up all of the articles together in about a page.\n\nSummary:"
        ),
        "vcsum": "下面是一场会议的逐字记录。\n\n{context}\n\n请用一段话概括以上会议的主要内容。\n\n总结：",
        "trec": (
            "Each question below is labelled with the kind of thing that it asks for. "
            "Label the last question in the same way.\n\n{context}\n{input}"
        ),
        "triviaqa": (
            "Below, passages are followed by questions and their short answers. "
            "Complete the last one in the same way, with the answer alone.\n\n{context}\n\n{input}"
        ),
        "samsum": (
            "Below, conversations are followed by summaries of a few sentences. "
            "Complete the last one in the same way.\n\n{context}\n\n{input}"
        ),
        "lsht": "下面每条新闻之后都标有它所属的类别，请照样标出最后一条新闻的类别。\n\n{context}\n{input}",
        "passage_count": (
            "A number of paragraphs follow. Some occur more than once. Work out how many different ones there "
            "are when each is counted once.\n\n{context}\n\n"
            "How many different paragraphs are there? Reply with one number, for example 4.\n\nNumber: "
        ),
        "passage_retrieval_en": (
            "Numbered paragraphs follow, and after them a summary of one of them.\n\n{context}\n\n"
            "Summary:\n\n{input}\n\n"
            'Which paragraph does it sum up? Reply with its name, for example "Paragraph 4".\n\nName: '
        ),
        "passage_retrieval_zh": (
            "下面先给出若干个带编号的段落，然后给出其中某一段的概括。\n\n{context}\n\n概括：\n\n{input}\n\n"
            "它概括的是哪一段？请只写出段落名称，例如“段落4”。\n\n名称："
        ),
        "lcc": "Write the line of code that comes next in this file.\n{context}The line that comes next:\n",
        "repobench-p": (
            "Write the line of code that comes next in the last of these files.\n"
            "{context}{input}The line that comes next:\n"
        ),
    }
)
"""Template of each v1 dataset, with ``{context}`` and ``{input}`` to fill in."""

_ASK = "Question: $Q$\n\nA: $C_A$\nB: $C_B$\nC: $C_C$\nD: $C_D$\n\n"

V2_REASONING = (
    "A document follows, and after it a question with four possible answers, of which one is right.\n\n"
    "<document>\n$DOC$\n</document>\n\n"
    + _ASK
    + "First reason about the question, one step after the other.\n\nReasoning:"
)
"""First request of v2: the document, the question and its choices, then room to reason."""

V2_ANSWER = (
    "This question about a document has four possible answers, of which one is right. "
    "The document itself is left out here; somebody who read it has reasoned about the question.\n\n"
    + _ASK
    + "Reasoning: $COT$\n\n"
    "Which answer does this reasoning lead to? Name exactly one, with its letter in parentheses, in these "
    'words: "The correct answer is (letter)".'
)
"""Second request of v2, without the document: which letter the reasoning comes to."""
