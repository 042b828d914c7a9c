# Every number of the report again, by another code path.


rule verify:
    input:
        cells="results/{experiment}/cells.json",
        page="results/{experiment}/report.html",
    output:
        verification="results/{experiment}/verification.json",
    log:
        "logs/{experiment}/verify.log",
    benchmark:
        "benchmarks/{experiment}/verify.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        code=PLAN.code("verify"),
    message:
        "{wildcards.experiment}: recomputing every reported number from the Parquet files"
    shell:
        "python -m workflow.jobs.verify --experiment {wildcards.experiment} --out results/{wildcards.experiment} --log {log:q}"
