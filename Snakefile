# One named target per experiment: snakemake --cores all results/smollm2_split19
# Stages are in workflow/rules, what they run in workflow/jobs, settings in workflow/config.
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))

from workflow.dag import Plan, Refused, experiments
from workflow.gate import SHARDED
from workflow.lock import left_by_a_killed_run


configfile: ROOT / "workflow/config/workflow.yaml"


PLAN = Plan(ROOT, config)
EXPERIMENTS = experiments(ROOT)
# Jobs find the interpreter that runs Snakemake first, whatever "python" was on the path.
shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    experiment="|".join(EXPERIMENTS),
    model=r"[a-z0-9][a-z0-9.-]*",
    source=r"[a-z0-9][a-z0-9._-]*",
    unknown=r"[^/]+",


# Targets named on the command line are asked about before anything is planned, so that a refusal is one sentence and
# nothing else. The run rules ask again while planning, and so does every job.
for target in sys.argv[1:]:
    if target.startswith("results/"):
        try:
            PLAN.admit(target)
        except Refused as refusal:
            sys.exit(f"error: {refusal}")


if left_by_a_killed_run(Path.cwd(), sys.argv[1:]):
    sys.exit(
        "error: a run in this folder was killed and left its lock; type `snakemake --unlock`, then the same command "
        "again, which carries on from what was finished"
    )


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/hybrid.smk"
include: "workflow/rules/texts.smk"
include: "workflow/rules/capture.smk"
include: "workflow/rules/fit.smk"
include: "workflow/rules/corrections.smk"
include: "workflow/rules/arms.smk"
include: "workflow/rules/shards.smk"
include: "workflow/rules/suites.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/longbench.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/reproduce.smk"


LEAVES = [
    "overlap.json",
    "lam/lam_curve.parquet",
    "lam/more_maps.parquet",
    "fit/fit_layers.parquet",
    "maps/SHA256SUMS",
    "ruler/samples.parquet",
    "ruler/timings.parquet",
    "ruler/arms.parquet",
    "ruler/measured.parquet",
    "documents/documents.parquet",
    "documents/tokens.parquet",
    "documents/timings.parquet",
    "documents/arms.parquet",
    "documents/measured.parquet",
    "experiment.json",
    "provenance.json",
    "claim.yaml",
    "verdicts.json",
    "cells.json",
    *(f"tables/{table}.{kind}" for table in TABLES for kind in ("md", "csv")),
    *(f"figures/{figure}.{kind}" for figure in FIGURES for kind in ("png", "svg")),
    "views.sql",
    "report.html",
    "verification.json",
]

for experiment in EXPERIMENTS:

    rule:
        name:
            f"results/{experiment}"
        input:
            expand("results/{experiment}/{leaf}", experiment=experiment, leaf=LEAVES),
            asked(lambda wildcards, name=experiment: PLAN.suite_files(name)),
        localrule: True
        message:
            f"{experiment}: complete"


rule default:
    default_target: True
    input:
        expand("results/smollm2_split19/{leaf}", leaf=LEAVES),
    localrule: True
    message:
        "The embedded experiment is complete"
