# Every arm on every suite. One job evaluates all arms of a suite: they share the exact and the lower pass. Where shards
# made the items (shards.smk), it writes the tables from theirs.


rule ruler:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        shards=asked(lambda wildcards: PLAN.shard_files(wildcards.experiment, "ruler")),
    output:
        samples="results/{experiment}/ruler/samples.parquet",
        timings="results/{experiment}/ruler/timings.parquet",
        arms="results/{experiment}/ruler/arms.parquet",
        measured="results/{experiment}/ruler/measured.parquet",
    log:
        "logs/{experiment}/ruler.log",
    benchmark:
        "benchmarks/{experiment}/ruler.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 2
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=480,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=PLAN.code("ruler"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment,
                "suites",
                "arms",
                "arms_together",
                "curve",
                "tail",
                "rows_share",
                "window",
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: needle retrieval under every arm"
    shell:
        "python -m workflow.jobs.ruler --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"


rule documents:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        shards=asked(
            lambda wildcards: PLAN.shard_files(wildcards.experiment, "documents")
        ),
    output:
        documents="results/{experiment}/documents/documents.parquet",
        tokens="results/{experiment}/documents/tokens.parquet",
        timings="results/{experiment}/documents/timings.parquet",
        arms="results/{experiment}/documents/arms.parquet",
        measured="results/{experiment}/documents/measured.parquet",
    log:
        "logs/{experiment}/documents.log",
    benchmark:
        "benchmarks/{experiment}/documents.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 2
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=480,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=PLAN.code("documents"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment,
                "suites",
                "arms",
                "arms_together",
                "curve",
                "tail",
                "rows_share",
                "window",
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: loss on long documents under every arm"
    shell:
        "python -m workflow.jobs.documents --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"
