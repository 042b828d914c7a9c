"""Experiments and models, read from ``workflow/config`` and checked before anything runs.

An unknown key, a value of the wrong type, a split outside the model or a prompt longer than its context
is a :class:`ConfigError` that names the file and the key. The fields are in :mod:`ridgefill.settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from ridgefill.arm_checks import check_arms
from ridgefill.arm_specs import arm_from
from ridgefill.arms import Arm, ArmSettings, make_arm
from ridgefill.cost import Geometry, geometry_of
from ridgefill.errors import ConfigError
from ridgefill.fitted_names import fit_lengths
from ridgefill.settings import Experiment, ExperimentFile, ModelConfig
from ridgefill.suite_settings import SECOND_QUESTION
from ridgefill.suites.longbench.datasets import find_dataset
from ridgefill.suites.longbench.v2 import REASONING_TOKENS

__all__ = [
    "Experiment",
    "ModelConfig",
    "check_fits_model",
    "cost_geometry",
    "experiment_arms",
    "known_experiments",
    "known_models",
    "load_experiment",
    "load_model",
    "with_overrides",
    "with_seeds",
]

MODEL_DIR = Path("workflow/config/models")
EXPERIMENT_DIR = Path("workflow/config/experiments")

M = TypeVar("M", bound=BaseModel)


class _PlainLoader(yaml.SafeLoader):
    """Plain YAML that refuses a key given twice instead of keeping the last one, a key of several parts, and aliases,
    a few of which, nested, name more values than memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1
            raise ConfigError(f"has an alias at line {line}; write the value out there")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"the key at line {line} has several parts; expected a word")
            if key.value in seen:
                raise ConfigError(f"key {key.value!r} is given again at line {line}; keep one of them")
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


# PyYAML's own errors, and what its constructors let through for a day that does not exist, a number without digits, a
# tag on a value that it does not fit, and nesting without end.
_NOT_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)


def _plain(text: str, where: str) -> Any:
    """The value of one YAML document; ConfigError, naming where it stands, for anything that is not plain YAML."""
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except _NOT_YAML as error:
        raise ConfigError(f"{where}: not readable as YAML: {_line(str(error))}") from None


def _line(text: str) -> str:
    """On one line, and its middle left out where it is long."""
    words = " ".join(text.split())
    return words if len(words) <= 400 else f"{words[:190]} ... {words[-190:]}"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {_line(str(error))}") from None
    data = _plain(text, str(path))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds {type(data).__name__}, expected a mapping of settings")
    return data


def _checked(kind: type[M], data: Mapping[str, Any], where: str) -> M:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = _line(".".join(str(part) for part in first["loc"])) or "(whole file)"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        found = "" if first["type"] in {"missing", "value_error"} else f", found {_line(repr(first['input']))}"
        raise ConfigError(f"{where}: {key}: {_line(first['msg'])}{found}{more}") from None


def _known(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def _find(folder: Path, kind: str, name: str) -> Path:
    known = _known(folder)
    if name not in known:
        raise ConfigError(f"unknown {kind} {name!r}; known: {', '.join(known) or f'none in {folder}'}")
    return folder / f"{name}.yaml"


def known_models(root: Path | str = ".") -> tuple[str, ...]:
    """Names of the models configured under ``root``, sorted."""
    return _known(Path(root) / MODEL_DIR)


def known_experiments(root: Path | str = ".") -> tuple[str, ...]:
    """Names of the experiments configured under ``root``, sorted."""
    return _known(Path(root) / EXPERIMENT_DIR)


def load_model(name: str, root: Path | str = ".") -> ModelConfig:
    """Read and check ``workflow/config/models/<name>.yaml``; raises ConfigError."""
    path = _find(Path(root) / MODEL_DIR, "model", name)
    model = _checked(ModelConfig, _read(path), str(path))
    if model.name != name:
        raise ConfigError(f"{path}: name: is {model.name!r}, expected {name!r} as the file is called")
    return model


def load_experiment(name: str, root: Path | str = ".") -> Experiment:
    """Read and check ``workflow/config/experiments/<name>.yaml`` against its model; raises ConfigError."""
    path = _find(Path(root) / EXPERIMENT_DIR, "experiment", name)
    data = _read(path)
    _checked(ExperimentFile, data, str(path))
    experiment = _checked(Experiment, {**data, "name": name}, str(path))
    model = load_model(experiment.model, root)
    check_fits_model(experiment, model, str(path))
    check_arms(experiment_arms(experiment, model.geometry.layers), model, cost_geometry(model), str(path))
    return experiment


def cost_geometry(model: ModelConfig) -> Geometry:
    """The cost model's geometry of a model; ConfigError, naming it, where sizes of its family are missing."""
    try:
        return geometry_of(model.geometry, model.family)
    except ConfigError as error:
        raise ConfigError(f"{model.name}: {error}") from None


def experiment_arms(experiment: Experiment, layers: int) -> list[Arm]:
    """The experiment's arms, at its split or their own, then the split curve's at the other splits; each arm once.

    layers: of the model. Raises ``ConfigError`` for what no arm can have.
    """
    settings = ArmSettings(
        layers, experiment.split, experiment.tail, experiment.rows_share, experiment.window, experiment.split_layer
    )
    arms: dict[str, Arm] = {}
    for one in experiment.arms:
        arm = make_arm(one, **vars(settings)) if isinstance(one, str) else arm_from(one, settings)
        arms.setdefault(arm.key, arm)
    for split in experiment.curve.splits:
        for name in experiment.curve.arms:
            arm = make_arm(name, **{**vars(settings), "split": split})
            arms.setdefault(arm.key, arm)
    return list(arms.values())


def check_fits_model(experiment: Experiment, model: ModelConfig, where: str) -> None:
    """Refuse a split outside the model's layers, or a prompt outside its context or inside the tail."""
    geometry = model.geometry
    for split in experiment.splits:
        if not 1 <= split < geometry.layers:
            raise ConfigError(f"{where}: split {split} is outside {model.name}, expected 1 to {geometry.layers - 1}")
    suites = experiment.suites
    prompts = {f"suites.ruler.lengths {length}": (length, length) for length in suites.ruler.lengths}
    document = suites.documents.prompt_tokens
    prompts["suites.documents.prompt_tokens plus scored_tokens"] = (document, document + suites.documents.scored_tokens)
    prompts |= _continued_prompts(experiment)
    for name, suite in (("speed", suites.speed), ("serving", suites.serving)):
        prompts |= {f"suites.{name}.lengths {length}": (length, length) for length in (suite.lengths if suite else ())}
    prompts |= _longbench_prompts(experiment, where)
    for key, (prompt, total) in prompts.items():
        if prompt <= experiment.tail or total > geometry.context:
            raise ConfigError(
                f"{where}: {key} is {total} tokens; expected a prompt over the tail ({experiment.tail}) that fits, "
                f"with what follows it, in the context of {model.name} ({geometry.context})"
            )
    if suites.serving and (told := suites.serving.user_prompt + suites.serving.new_tokens) > geometry.context:
        raise ConfigError(
            f"{where}: suites.serving.user_prompt plus new_tokens is {told} tokens; expected them to fit in the "
            f"context of {model.name} ({geometry.context})"
        )
    if suites.served and (wrong := suites.served.wrong_size(experiment.tail, geometry.context)):
        raise ConfigError(f"{where}: {wrong}")
    _check_suite_arms(experiment, where)
    _check_fit_lengths(experiment, geometry.layers, where)


def _check_fit_lengths(experiment: Experiment, layers: int, where: str) -> None:
    """Refuse maps fitted on all tokens of the capture, or more, by an arm that names their number."""
    for tokens in fit_lengths(experiment_arms(experiment, layers), experiment.splits):
        if tokens >= experiment.capture.tokens:
            raise ConfigError(
                f"{where}: an arm's maps are fitted on {tokens} tokens, and capture.tokens is "
                f"{experiment.capture.tokens}; expected fewer, or no maps.tokens for all of them"
            )


def _continued_prompts(experiment: Experiment) -> dict[str, tuple[int, int]]:
    """Tokens of the prompts of agreement and of two turns, and with all that follows them, by the setting."""
    first, second = experiment.suites.agreement, experiment.suites.turns
    prompts: dict[str, tuple[int, int]] = {}
    if first is not None:
        for length in first.lengths:
            prompts[f"suites.agreement.lengths {length} plus new_tokens"] = (length, length + first.new_tokens)
    if second is not None:
        more = 2 * second.new_tokens + SECOND_QUESTION
        for length in second.lengths:
            prompts[f"suites.turns.lengths {length}, with {more} after the prompt,"] = (length - more, length)
    return prompts


def _longbench_prompts(experiment: Experiment, where: str) -> dict[str, tuple[int, int]]:
    """Tokens of LongBench's longest prompts, and with their answers, by the setting that bounds them; a chat template
    adds some."""
    first, second = experiment.suites.longbench_v1, experiment.suites.longbench_v2
    prompts: dict[str, tuple[int, int]] = {}
    if first is not None:
        try:
            answer = max(find_dataset(name).new_tokens for name in first.datasets)
        except ConfigError as error:
            raise ConfigError(f"{where}: suites.longbench_v1.datasets: {error}") from None
        prompts["suites.longbench_v1.budget plus the longest answer"] = (first.budget, first.budget + answer)
    if second is not None:
        prompts["suites.longbench_v2.budget plus the reasoning"] = (second.budget, second.budget + REASONING_TOKENS)
    return prompts


def _check_suite_arms(experiment: Experiment, where: str) -> None:
    """Refuse a suite that names an arm which the experiment does not run."""
    known = {arm if isinstance(arm, str) else arm.name for arm in experiment.arms}
    for suite, settings in experiment.suites:
        if unknown := [arm for arm in getattr(settings, "arms", None) or () if arm not in known]:
            raise ConfigError(
                f"{where}: suites.{suite}.arms: has {unknown[0]!r}, which the experiment does not run; expected some "
                f"of its arms: {', '.join(sorted(known))}"
            )


def with_overrides(experiment: Experiment, overrides: Mapping[str, Any]) -> Experiment:
    """The same experiment with dotted keys replaced, such as ``{"dtype": "bfloat16"}``, checked again."""
    data = experiment.model_dump(mode="python")
    for key, value in overrides.items():
        *parents, last = key.split(".")
        target: Any = data
        for parent in parents:
            target = target.get(parent) if isinstance(target, dict) else None
        if key == "name" or not isinstance(target, dict) or last not in target:
            raise ConfigError(f"unknown setting {key!r} to override in {experiment.name}")
        # A command line only has strings: "200" is the number that the same text would be in the file.
        target[last] = _plain(value, f"{experiment.name}: override {key}") if isinstance(value, str) else value
    return _checked(Experiment, data, f"{experiment.name} with overrides {_line(repr(dict(overrides)))}")


def with_seeds(experiment: Experiment, seed_for: Callable[[str], int]) -> Experiment:
    """The experiment with every seed that says ``registration`` replaced by one that ``seed_for`` derives.

    ``seed_for`` maps a label (``samples``, ``bootstrap``) to a number of 63 bits; it is not asked when the
    experiment writes its seeds out.
    """
    ruler, statistics = experiment.suites.ruler, experiment.statistics
    if ruler.seed == "registration":
        ruler = ruler.model_copy(update={"seed": seed_for("samples")})
    if statistics.seed == "registration":
        statistics = statistics.model_copy(update={"seed": seed_for("bootstrap")})
    suites = experiment.suites.model_copy(update={"ruler": ruler})
    return experiment.model_copy(update={"suites": suites, "statistics": statistics})
