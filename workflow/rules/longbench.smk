# LongBench under every arm, from the user's own files. An experiment without the suite never asks for these outputs.


rule longbench_v1:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        users=asked(
            lambda wildcards: PLAN.user_files(wildcards.experiment, "longbench_v1")
        ),
        shards=asked(
            lambda wildcards: PLAN.shard_files(wildcards.experiment, "longbench_v1")
        ),
    output:
        samples="results/{experiment}/longbench_v1/samples.parquet",
    log:
        "logs/{experiment}/longbench_v1.log",
    benchmark:
        "benchmarks/{experiment}/longbench_v1.tsv"
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
        code=PLAN.code("longbench_v1"),
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
        "{wildcards.experiment}: LongBench v1 under every arm"
    shell:
        "python -m workflow.jobs.longbench_v1 --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"


rule longbench_v2:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        users=asked(
            lambda wildcards: PLAN.user_files(wildcards.experiment, "longbench_v2")
        ),
        shards=asked(
            lambda wildcards: PLAN.shard_files(wildcards.experiment, "longbench_v2")
        ),
    output:
        samples="results/{experiment}/longbench_v2/samples.parquet",
    log:
        "logs/{experiment}/longbench_v2.log",
    benchmark:
        "benchmarks/{experiment}/longbench_v2.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 2
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=960,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=PLAN.code("longbench_v2"),
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
        "{wildcards.experiment}: LongBench v2 under every arm"
    shell:
        "python -m workflow.jobs.longbench_v2 --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.kva} {params.overrides} --log {log:q}"
