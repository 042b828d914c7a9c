# Suites divided into several jobs, with --config shards=NUMBER: one opens the attempt, each shard finishes its share of
# the items, and the suite's own rule writes the tables from all and closes the attempt.


wildcard_constraints:
    suite="|".join(SHARDED),
    shard="[1-9][0-9]*",
    shards="[1-9][0-9]*",


rule open_attempt:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(
            lambda wildcards: PLAN.suite_texts(wildcards.experiment, wildcards.suite)
        ),
    output:
        attempt=temp("results/{experiment}/{suite}/shards/attempt.json"),
    log:
        "logs/{experiment}/{suite}.attempt.log",
    benchmark:
        "benchmarks/{experiment}/{suite}.attempt.tsv"
    localrule: True
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=lambda wildcards: PLAN.code(wildcards.suite),
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
        "{wildcards.experiment}: opening the attempt that the shards of {wildcards.suite} work under"
    shell:
        "python -m workflow.jobs.{wildcards.suite} --open --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"


rule shard:
    input:
        # Another attempt does not make finished shards again; other maps, settings or code do.
        attempt=ancient("results/{experiment}/{suite}/shards/attempt.json"),
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(
            lambda wildcards: PLAN.suite_texts(wildcards.experiment, wildcards.suite)
        ),
    output:
        done=temp("results/{experiment}/{suite}/shards/{shard}-of-{shards}.json"),
    log:
        "logs/{experiment}/{suite}.{shard}-of-{shards}.log",
    benchmark:
        "benchmarks/{experiment}/{suite}.{shard}-of-{shards}.tsv"
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
        code=lambda wildcards: PLAN.code(wildcards.suite),
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
        "{wildcards.experiment}: {wildcards.suite}, shard {wildcards.shard} of {wildcards.shards}"
    shell:
        "python -m workflow.jobs.{wildcards.suite} --shard {wildcards.shard}/{wildcards.shards}"
        " --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"
