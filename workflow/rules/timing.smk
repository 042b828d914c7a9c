# Time to first token and mixed serving, in this project's own code and in vLLM's server. A timing run reserves every core of the machine, so that no other job of the
# workflow runs beside it, and computes with as many threads as the other suites.
TIMED_THREADS = 2


rule speed:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
    output:
        requests="results/{experiment}/speed/requests.parquet",
    log:
        "logs/{experiment}/speed.log",
    benchmark:
        "benchmarks/{experiment}/speed.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: lambda wildcards: workflow.cores or TIMED_THREADS
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=240,
    params:
        branch=PLAN.branch,
        threads=TIMED_THREADS,
        texts=config["texts"],
        code=PLAN.code("speed"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "suites", "arms", "tail", "rows_share", "window"
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: time to first token, every arm in turn with exact"
    shell:
        "python -m workflow.jobs.speed --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {params.threads} {params.kva} {params.overrides} --log {log:q}"


rule serving:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
    output:
        runs="results/{experiment}/serving/runs.parquet",
    log:
        "logs/{experiment}/serving.log",
    benchmark:
        "benchmarks/{experiment}/serving.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: lambda wildcards: workflow.cores or TIMED_THREADS
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=240,
    params:
        branch=PLAN.branch,
        threads=TIMED_THREADS,
        texts=config["texts"],
        code=PLAN.code("serving"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "suites", "arms", "tail", "rows_share", "window"
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: one long prefill among decoding users, every arm in turn with exact"
    shell:
        "python -m workflow.jobs.serving --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {params.threads} {params.kva} {params.overrides} --log {log:q}"


rule served:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
        fitted=asked(lambda wildcards: PLAN.fitted_files(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
        engine=ancient(PLAN.engine_file()),
    output:
        requests="results/{experiment}/served/requests.parquet",
        runs="results/{experiment}/served/runs.parquet",
        pairs="results/{experiment}/served/pairs.parquet",
    log:
        "logs/{experiment}/served.log",
    benchmark:
        "benchmarks/{experiment}/served.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: lambda wildcards: workflow.cores or TIMED_THREADS
    resources:
        mem_mb=10000,
        runtime=240,
    params:
        branch=PLAN.branch,
        threads=TIMED_THREADS,
        texts=config["texts"],
        code=PLAN.code("served"),
        plugin=PLAN.plugin_code(),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "suites", "arms", "tail", "rows_share", "window"
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
        kva=PLAN.kva_flag(),
    message:
        "{wildcards.experiment}: vLLM's own server, filling and stock, measured at its client"
    shell:
        "python -m workflow.jobs.served --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {params.threads} {params.kva} {params.overrides} --log {log:q}"
