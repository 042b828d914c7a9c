# Ridge maps in closed form: one factorisation per split, lam chosen on held-out text.


rule fit:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        model=asked(lambda wildcards: PLAN.model_file(wildcards.experiment)),
        moments="results/{experiment}/capture/moments.safetensors",
    output:
        maps="results/{experiment}/maps/SHA256SUMS",
        curve="results/{experiment}/lam/lam_curve.parquet",
        layers="results/{experiment}/fit/fit_layers.parquet",
        more="results/{experiment}/lam/more_maps.parquet",
    log:
        "logs/{experiment}/fit.log",
    benchmark:
        "benchmarks/{experiment}/fit.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 2
    resources:
        gpu=asked(lambda wildcards: PLAN.gpus(wildcards.experiment)),
        mem_mb=6000,
        runtime=120,
    params:
        branch=PLAN.branch,
        texts=config["texts"],
        code=PLAN.code("fit"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "fit", "capture", "curve", "split"
            )
        ),
        maps=asked(lambda wildcards: PLAN.map_names(wildcards.experiment)),
        folder=asked(lambda wildcards: PLAN.model_folder(wildcards.experiment)),
        overrides=PLAN.override_flags(),
    message:
        "{wildcards.experiment}: fitting ridge maps and choosing lam"
    shell:
        "python -m workflow.jobs.fit --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} --model {params.folder:q} --texts {params.texts:q}"
        " --threads {threads} {params.overrides} --log {log:q}"
