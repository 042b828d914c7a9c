# One exact pass over calibration text serves every split.


rule capture:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
        overlap="results/{experiment}/overlap.json",
    output:
        moments="results/{experiment}/capture/moments.safetensors",
    log:
        "logs/{experiment}/capture.log",
    benchmark:
        "benchmarks/{experiment}/capture.tsv"
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
        code=PLAN.code("capture"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "model", "capture", "curve", "split", "dtype"
            )
        ),
        lengths=asked(lambda wildcards: PLAN.fit_lengths(wildcards.experiment)),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
    message:
        "{wildcards.experiment}: capturing moments on calibration text"
    shell:
        "python -m workflow.jobs.capture --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.overrides} --log {log:q}"
