# Pinned text sources, and the gate that keeps calibration text out of every evaluation text.


rule text_source:
    output:
        marker=touch(f"{config['texts']}/{{source}}.fetched"),
    log:
        "logs/texts/{source}.log",
    benchmark:
        "benchmarks/texts/{source}.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        cache=lambda wildcards, output: str(Path(output.marker).parent),
        sources=asked(lambda wildcards: PLAN.sources_file(wildcards.source)),
    message:
        "Text source {wildcards.source}: fetching its pinned archive, checking SHA-256"
    shell:
        "python -m ridgefill.texts {wildcards.source} --cache {params.cache:q} --sources {params.sources:q} > {log:q}"


rule overlap:
    input:
        texts=asked(lambda wildcards: PLAN.text_files(wildcards.experiment)),
    output:
        report="results/{experiment}/overlap.json",
    log:
        "logs/{experiment}/overlap.log",
    benchmark:
        "benchmarks/{experiment}/overlap.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        texts=config["texts"],
        code=PLAN.code("overlap"),
        settings=asked(lambda wildcards: PLAN.settings(wildcards.experiment, "suites")),
    message:
        "{wildcards.experiment}: no calibration text may share 50 words in a row with an evaluation text"
    shell:
        "python -m workflow.jobs.overlap --experiment {wildcards.experiment} --out results/{wildcards.experiment}"
        " --texts {params.texts:q} --log {log:q}"
