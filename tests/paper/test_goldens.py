"""Every number that the specification marks golden has a test that states it, wherever that test lives.

The list below names them; a new golden in the specification fails until it is listed, and a listed one fails when its
test is gone or no longer states its numbers.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT.parent / "shared" / "spec"
needs_spec = pytest.mark.skipif(not SPEC.is_dir(), reason=f"the specification is not at {SPEC}")
MARK = "**golden**"
# File of the specification, words of the paragraph, the numbers in it, and the test that states them.
GOLDEN = [
    (
        "METHOD.md",
        "2560 x 10240 codes",
        ("26,629,120", "26,629,560"),
        "test_a_released_layer_file_has_the_published_size",
    ),
    ("METHOD.md", "Two gates every adapter", (), "test_the_exact_pass_is_the_stock_model_bit_for_bit"),
    ("METHOD.md", "Two gates every adapter", (), "test_an_arm_with_no_filled_row_is_the_stock_model_bit_for_bit"),
    ("METHOD.md", "Two gates every adapter", (), "test_true_inputs_through_the_fill_path_give_the_exact_result"),
    (
        "METHOD.md",
        "Flash-Next (48, 24, 2048)",
        ("1.64", "1.78", "1.88"),
        "test_flash_next_ceilings_are_the_published_ones",
    ),
    (
        "METHOD.md",
        "cheaper than POP",
        ("14.4", "45.7", "10.6", "58.9"),
        "test_crossovers_with_pop_are_the_published_ones",
    ),
    ("METHOD.md", "cheaper than POP", ("0.759", "1.042", "0.994"), "test_ratios_to_pop_are_the_published_ones"),
    ("EVALUATION.md", "sign test", ("0.525",), "test_sign_test_is_the_published_one"),
    ("EVALUATION.md", "binomial floor", ("2.18", "2.15", "1.38", "1.36"), "test_binomial_floor_is_the_published_one"),
]
NUMBER = re.compile(r"(?<![-\w.])(?:\d+\.\d+|\d{2},\d{3},\d{3})")


def paragraphs(text):
    """Bullets and paragraphs that hold the mark, each on one line, the sentence about the mark itself left out."""
    found, lines = [], []
    for line in [*text.splitlines(), ""]:
        if lines and (not line.strip() or line.startswith(("* ", "#", "**", "|"))):
            found.append(" ".join(lines))
            lines = []
        lines += [line.strip()] if line.strip() else []
    return [one for one in found if MARK in one and not one.split(MARK)[0].endswith("marked ")]


@cache
def sources():
    """Source of every test function of the project, decorators included, by name."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                code = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
                found.setdefault(node.name, []).append(code)
    return found


@needs_spec
@pytest.mark.parametrize("name", ["METHOD.md", "EVALUATION.md"])
def test_every_golden_number_of_the_specification_is_listed(name):
    """Each marked paragraph has a line here, and each number that follows its mark is in one."""
    marked = paragraphs((SPEC / name).read_text(encoding="utf-8"))
    assert len(marked) >= 2
    for paragraph in marked:
        listed = [numbers for file, words, numbers, _ in GOLDEN if file == name and words in paragraph]
        assert listed, paragraph[:100]
        after = set(NUMBER.findall(paragraph.split(MARK, 1)[1])) - {"3.1"}
        assert after <= {number for numbers in listed for number in numbers}, paragraph[:100]


@pytest.mark.parametrize(("numbers", "name"), [(numbers, name) for _, _, numbers, name in GOLDEN])
def test_every_listed_golden_has_a_test_that_states_it(numbers, name):
    """A test of that name exists, and its source holds the numbers as literals."""
    written = sources().get(name, [])
    assert written, f"no test is called {name}"
    for number in numbers:
        literal = number.replace(",", "_")
        assert any(re.search(rf"(?<![\w.]){re.escape(literal)}(?![\w.])", code) for code in written), number
