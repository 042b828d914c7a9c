"""The shape of the code, read from its syntax trees: which way imports go, what never loads torch, how
long things are.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ridgefill", "ledger", "workflow")
HEAVY = {"torch", "transformers", "safetensors", "accelerate", "gguf"}

# Imports go from a later line to an earlier one, or stay within a line's own group.
ORDER = [
    ("ridgefill", "ridgefill.errors"),
    ("ridgefill.archive", "ridgefill.files", "ridgefill.stats", "ridgefill.progress", "ridgefill.shares"),
    ("ridgefill.hybrid.language", "ridgefill.hybrid.words", "ridgefill.hybrid.texts"),
    ("ridgefill.sizes", "ridgefill.splits", "ridgefill.map_options", "ridgefill.corrections.cost"),
    ("ridgefill.cost",),
    ("ridgefill.selectors",),
    ("ridgefill.arms",),
    ("ridgefill.arm_specs", "ridgefill.fitted_names", "ridgefill.suite_settings"),
    ("ridgefill.settings", "ridgefill.texts", "ridgefill.loading"),
    ("ridgefill.arm_checks", "ridgefill.views", "ridgefill.result_schemas"),
    ("ridgefill.config", "ridgefill.schemas", "ridgefill.results", "ridgefill.suites"),
    ("ridgefill.measures", "ridgefill.recompute"),
    ("ridgefill.provider", "ridgefill.long_table"),
    ("ridgefill.tables", "ridgefill.paper"),
    ("ridgefill.tracing",),
    ("ridgefill.mapfiles", "ridgefill.modelcard"),
    ("ridgefill.devices",),
    ("ridgefill.models", "ridgefill.maps", "ridgefill.moments", "ridgefill.moment_sums"),
    ("ridgefill.vllm_plugin",),
    ("ridgefill.served",),
    ("ridgefill.hybrid",),
    ("ridgefill.ranking",),
    ("ridgefill.passes", "ridgefill.ridge", "ridgefill.ridge_options", "ridgefill.low_rank_files"),
    ("ridgefill.amend", "ridgefill.corrections", "ridgefill.splices"),
    ("ridgefill.capture", "ridgefill.lam", "ridgefill.rows", "ridgefill.selectors.probe"),
    ("ridgefill.fill", "ridgefill.decode", "ridgefill.selectors.sweeps", "ridgefill.selectors.frequency_files"),
    ("ridgefill.evaluation",),
    ("ridgefill.generation", "ridgefill.pretrained"),
    ("ridgefill.fitting", "ridgefill.lm_eval_model"),
    ("ridgefill.tuning",),
    ("ridgefill.bench",),
    ("ridgefill.commands",),
    ("ridgefill.cli",),
]
# Modules that start no model. `cli` may reach them lazily, so only its top level counts.
LIGHT = [
    "ridgefill.stats", "ridgefill.tables", "ridgefill.results", "ridgefill.cost", "ridgefill.recompute",
    "ridgefill.measures", "ridgefill.suites", "ridgefill.texts", "ridgefill.config", "ridgefill.settings",
    "ridgefill.archive", "ridgefill.arms", "ridgefill.files", "ridgefill.schemas", "ridgefill.models.source",
    "ridgefill.provider", "ridgefill.arm_checks",
    "ridgefill.long_table", "ridgefill.modelcard", "ridgefill.mapfiles.manifest", "ridgefill.mapfiles.names",
    "ridgefill.mapfiles.match", "ridgefill.mapfiles.describe", "ridgefill.mapfiles.hub", "ledger",
    "ridgefill.shares", "ridgefill.sizes", "ridgefill.models.sizes", "ridgefill.corrections.cost",
    "ridgefill.splits", "ridgefill.map_options", "ridgefill.arm_specs", "ridgefill.fitted_names",
    "ridgefill.suite_settings", "ridgefill.views", "ridgefill.result_schemas",
    "ridgefill.loading",
    *(f"ridgefill.selectors.{name}" for name in (
        "attention", "budget", "classes", "context", "controls", "digits", "frequency", "lexical", "named", "probed",
        "protected", "question", "special", "tokens",
    )),
    "ridgefill.paper", "ridgefill.tracing", "ridgefill.served",
    *(f"ridgefill.tuning.{name}" for name in (
        "candidates", "confirm", "figure", "front", "material", "pinned", "report", "search",
        "settings", "store",
    )),
    *(f"ridgefill.vllm_plugin.{name}" for name in (
        "settings", "fitting", "requests", "steps", "logs", "diagnosis", "picked",
    )),
    *(f"ridgefill.hybrid.{name}" for name in ("frozen", "language", "settings", "texts", "words")),
]  # fmt: skip


def sources():
    """Module name -> path, for every file of the packages."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = sources()


@cache
def tree(path):
    return ast.parse(path.read_text("utf-8"), str(path))


def only_types(node):
    """Whether an ``if`` is ``if TYPE_CHECKING``."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(node, lazy):
    """Import statements below ``node``; those inside functions only when ``lazy``."""
    for child in ast.iter_child_nodes(node):
        if only_types(child) or (not lazy and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from statements(child, lazy)


@cache
def imported(module, lazy=True):
    """Modules that ``module`` names in imports: its own packages' by full name, others by their first
    part.
    """
    found = set()
    for node in statements(tree(MODULES[module]), lazy):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module} uses a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {owner(name) for name in names}
    return found


def owner(name):
    """The module of ours that holds ``name``, or the first part of somebody else's."""
    if name in MODULES or "." not in name:
        return name
    return owner(name.rpartition(".")[0])


def parents(module):
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def reached(module, lazy):
    """Everything that importing ``module`` may import, packages' own files included, with one way there."""
    ways = {}
    todo = [(name, (name,)) for name in parents(module)]
    while todo:
        name, way = todo.pop()
        if name in ways:
            continue
        ways[name] = way
        if name in MODULES:
            todo += [(up, (*way, up)) for one in imported(name, lazy) for up in parents(one) if one in MODULES]
            todo += [(one, (*way, one)) for one in imported(name, lazy) if one not in MODULES]
    return ways


def belongs(module, groups):
    return any(module == group or module.startswith(f"{group}.") for group in groups)


@pytest.mark.parametrize("module", [name for name in MODULES if belongs(name, LIGHT)])
def test_light_modules_never_reach_torch(module):
    """Not directly, not through other modules, not inside a function."""
    ways = reached(module, lazy=True)
    heavy = [" -> ".join(way) for name, way in ways.items() if name in HEAVY]
    assert not heavy


@pytest.mark.parametrize("module", ["ridgefill.cli", "ledger.cli"])
def test_command_lines_start_without_torch(module):
    """``--help`` answers before anything heavy is imported."""
    ways = reached(module, lazy=False)
    assert not [" -> ".join(way) for name, way in ways.items() if name in HEAVY]


def test_light_modules_load_without_torch_when_they_really_run():
    """The same claim in a fresh interpreter, third-party packages included."""
    names = [name for name in MODULES if belongs(name, LIGHT) and not name.endswith("__main__")]
    code = "import importlib, sys\n" + "".join(f"importlib.import_module({name!r})\n" for name in names)
    code += f"print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr[-500:]


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("ledger")])
def test_the_ledger_stands_alone(module):
    """It imports nothing of ridgefill or the workflow."""
    assert not {name for name in imported(module) if name.split(".")[0] in ("ridgefill", "workflow")}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("ridgefill")])
def test_only_the_workflow_and_the_command_line_join_the_two(module):
    """No module of ridgefill but ``cli`` imports the ledger, and none the workflow."""
    others = {name.split(".")[0] for name in imported(module)} & {"ledger", "workflow"}
    assert not others or (module == "ridgefill.cli" and others == {"ledger"})


def rank(module):
    """Place in ORDER by the longest matching group."""
    matches = [
        (len(group), place)
        for place, groups in enumerate(ORDER)
        for group in groups
        if module == group or (group != "ridgefill" and module.startswith(f"{group}."))
    ]
    return max(matches, default=(0, None))[1]


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("ridgefill")])
def test_imports_go_one_way(module):
    """suites and arms below fill, fill below evaluation, tables on results and measures only; a new module
    needs a place.
    """
    own = rank(module)
    assert own is not None, f"{module} has no place in ORDER"
    # A command line at the end of a chain may name what it starts.
    ends = module in ("ridgefill.cli",)
    for name in imported(module):
        if name.startswith("ridgefill"):
            assert ends or rank(name) <= own, f"{module} imports {name}"


def test_no_imports_in_circles():
    """Every module can be imported first."""
    state = {}

    def visit(module, way):
        if state.get(module) == "done":
            return
        assert state.get(module) != "open", " -> ".join([*way, module])
        state[module] = "open"
        for name in sorted(imported(module, lazy=False)):
            if name in MODULES:
                visit(name, [*way, module])
        state[module] = "done"

    for module in MODULES:
        visit(module, [])


@pytest.mark.parametrize("module", MODULES)
def test_files_are_short_and_functions_shorter(module):
    """At most 300 lines a file and 60 a function, and no assert statement outside tests."""
    path = MODULES[module]
    assert len(path.read_text("utf-8").splitlines()) <= 300
    for node in ast.walk(tree(path)):
        assert not isinstance(node, ast.Assert), f"{path.name}:{node.lineno} asserts"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{path.name}:{node.lineno} {node.name} is too long"


def test_half_of_the_files_have_at_most_150_lines():
    """The median, tests included."""
    paths = [*MODULES.values(), *sorted((ROOT / "tests").rglob("*.py"))]
    lengths = sorted(len(path.read_text("utf-8").splitlines()) for path in paths)
    assert lengths[len(lengths) // 2] <= 150
    assert lengths[-1] <= 300


@pytest.mark.parametrize("module", MODULES)
def test_every_public_thing_says_what_it_is(module):
    """A docstring on every module, public class and public function."""
    top = tree(MODULES[module])
    assert ast.get_docstring(top)
    for node in ast.walk(top):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{module}.{node.name}"
    for node in top.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{module}.{node.name}"
