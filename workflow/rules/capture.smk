# One exact pass over calibration text serves every split.


rule capture:
    input:
        registration=ancient(asked(lambda wildcards: PLAN.registration(wildcards.experiment))),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
        overlap="results/{experiment}/overlap.json",
    output:
        moments="results/{experiment}/capture/moments.safetensors",
    params:
        code=PLAN.code("capture"),
        settings=asked(lambda wildcards: PLAN.settings(wildcards.experiment, "model", "capture", "curve", "split", "dtype")),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
    log:
        "logs/{experiment}/capture.log",
    benchmark:
        "benchmarks/{experiment}/capture.tsv"
    threads: 2
    resources:
        gpu=1,
        mem_mb=4000,
        runtime=240,
    message:
        "{wildcards.experiment}: capturing moments on calibration text"
    shell:
        "{PY} -m workflow.jobs.capture --experiment {wildcards.experiment} --branch {config[ledger_branch]}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {config[texts]:q}"
        " --threads {threads} {params.overrides} --log {log:q}"
