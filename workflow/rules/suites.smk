# Following the exact arm token by token, and a second question: for experiments that have these suites.


rule agreement:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
        shards=asked(
            lambda wildcards: PLAN.shard_files(wildcards.experiment, "agreement")
        ),
    output:
        documents="results/{experiment}/agreement/documents.parquet",
        tokens="results/{experiment}/agreement/tokens.parquet",
    log:
        "logs/{experiment}/agreement.log",
    benchmark:
        "benchmarks/{experiment}/agreement.tsv"
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
        code=PLAN.code("agreement"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment,
                "suites",
                "arms",
                "arms_together",
                "tail",
                "rows_share",
                "window",
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: how closely every arm follows the exact one after documents' prompts"
    shell:
        "python -m workflow.jobs.agreement --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"


rule turns:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
        shards=asked(lambda wildcards: PLAN.shard_files(wildcards.experiment, "turns")),
    output:
        samples="results/{experiment}/turns/samples.parquet",
    log:
        "logs/{experiment}/turns.log",
    benchmark:
        "benchmarks/{experiment}/turns.tsv"
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
        code=PLAN.code("turns"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment,
                "suites",
                "arms",
                "arms_together",
                "tail",
                "rows_share",
                "window",
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: a second question to every arm's cache"
    shell:
        "python -m workflow.jobs.turns --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"
