# Tiny hybrids trained here: snakemake --cores 1 hybrids. No experiment asks for it; their checkpoints are in data/models.
from ridgefill.hybrid.settings import known_hybrids


rule hybrids:
    input:
        expand(
            f"{config['models']}/trained/{{hybrid}}/training.json",
            hybrid=known_hybrids(ROOT),
        ),
    localrule: True
    message:
        "Every hybrid is trained; to publish one, copy its folder to data/models"


rule hybrid:
    input:
        settings="workflow/config/hybrids/{hybrid}.yaml",
    output:
        record=f"{config['models']}/trained/{{hybrid}}/training.json",
    log:
        "logs/hybrids/{hybrid}.log",
    benchmark:
        "benchmarks/hybrids/{hybrid}.tsv"
    wildcard_constraints:
        hybrid=r"[a-z0-9][a-z0-9-]*",
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=120,
    params:
        code=PLAN.code("hybrid"),
        folder=lambda wildcards, output: str(Path(output.record).parent),
    message:
        "Hybrid {wildcards.hybrid}: training on one core, up to an hour; stopped, it goes on where it was"
    shell:
        "python -m workflow.jobs.hybrid --name {wildcards.hybrid} --out {params.folder:q} --log {log:q}"
