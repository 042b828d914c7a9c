# What single arms need beside maps: offsets of late recurrent states, and how rare tokens are.


rule corrections:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        maps="results/{experiment}/maps/SHA256SUMS",
    output:
        sums="results/{experiment}/corrections/SHA256SUMS",
    log:
        "logs/{experiment}/corrections.log",
    benchmark:
        "benchmarks/{experiment}/corrections.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 2
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=4000,
        runtime=240,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=PLAN.code("corrections"),
        names=asked(lambda wildcards: PLAN.correction_names(wildcards.experiment)),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "model", "capture", "dtype"
            )
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
    message:
        "{wildcards.experiment}: fitting offsets of late recurrent states"
    shell:
        "python -m workflow.jobs.corrections --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.overrides} --log {log:q}"


rule frequencies:
    input:
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
    output:
        counts="results/{experiment}/capture/frequencies.safetensors",
    log:
        "logs/{experiment}/frequencies.log",
    benchmark:
        "benchmarks/{experiment}/frequencies.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        texts=config["texts"],
        code=PLAN.code("frequencies"),
        settings=asked(
            lambda wildcards: PLAN.settings(wildcards.experiment, "model", "capture")
        ),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
    message:
        "{wildcards.experiment}: counting the tokens of the calibration documents"
    shell:
        "python -m workflow.jobs.frequencies --experiment {wildcards.experiment}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q} --log {log:q}"
