"""A tiny set of our own in the shapes of LongBench v1 and v2, and a tokenizer whose tokens are words."""

import json
import re
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


class Words:
    """Ids of words, blanks and other marks in the order they are met, after an opening mark that decodes to nothing."""

    def __init__(self):
        self.known = ["<s>"]

    def encode(self, text):
        ids = [0]
        for part in re.findall(r"\w+|\s|[^\w\s]", text):
            if part not in self.known:
                self.known.append(part)
            ids.append(self.known.index(part))
        return ids

    def decode(self, ids):
        return "".join(self.known[place] for place in ids if place)


@pytest.fixture
def words():
    return Words()


@pytest.fixture
def v1_folder():
    return DATA / "v1"


@pytest.fixture
def v2_file():
    return DATA / "v2.json"


@pytest.fixture
def trec_line():
    """The fields of one good line, to be spoilt."""
    return json.loads((DATA / "v1" / "trec.jsonl").read_text(encoding="utf-8").splitlines()[0])


@pytest.fixture
def v2_entry():
    """The fields of one good v2 item, to be spoilt."""
    return json.loads((DATA / "v2.json").read_text(encoding="utf-8"))[0]
