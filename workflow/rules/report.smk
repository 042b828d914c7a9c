# Verdicts by the registered rules, then tables, figures and the report, all from the Parquet files.


rule report:
    input:
        registration=ancient(
            asked(lambda wildcards: PLAN.registration(wildcards.experiment))
        ),
        overlap="results/{experiment}/overlap.json",
        curve="results/{experiment}/lam/lam_curve.parquet",
        layers="results/{experiment}/fit/fit_layers.parquet",
        samples="results/{experiment}/ruler/samples.parquet",
        ruler_timings="results/{experiment}/ruler/timings.parquet",
        documents="results/{experiment}/documents/documents.parquet",
        tokens="results/{experiment}/documents/tokens.parquet",
        document_timings="results/{experiment}/documents/timings.parquet",
        more=expand(
            "results/{{experiment}}/{file}",
            file=[
                "lam/more_maps.parquet",
                "ruler/arms.parquet",
                "ruler/measured.parquet",
                "documents/arms.parquet",
                "documents/measured.parquet",
            ],
        ),
        suites=asked(lambda wildcards: PLAN.suite_files(wildcards.experiment)),
        notes="workflow/report/notes.yaml",
    output:
        # One flag per figure, so that each has its label in `snakemake --report`.
        **{
            figure: report(
                f"results/{{experiment}}/figures/{figure}.png",
                caption="../report/figure.rst",
                category="{experiment}",
                labels={"what": figure.replace("_", " ")},
            )
            for figure in FIGURES
        },
        experiment="results/{experiment}/experiment.json",
        provenance="results/{experiment}/provenance.json",
        claim="results/{experiment}/claim.yaml",
        verdicts="results/{experiment}/verdicts.json",
        cells="results/{experiment}/cells.json",
        page=report(
            "results/{experiment}/report.html",
            caption="../report/page.rst",
            category="{experiment}",
            labels={"what": "the whole report"},
        ),
        views="results/{experiment}/views.sql",
        tables=expand(
            "results/{{experiment}}/tables/{table}.{kind}",
            table=TABLES,
            kind=["md", "csv"],
        ),
        drawings=expand("results/{{experiment}}/figures/{figure}.svg", figure=FIGURES),
    log:
        "logs/{experiment}/report.log",
    benchmark:
        "benchmarks/{experiment}/report.tsv"
    conda:
        "../envs/ridgefill.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        branch=PLAN.branch,
        code=PLAN.code("report"),
        settings=asked(
            lambda wildcards: PLAN.settings(
                wildcards.experiment, "statistics", "title", "claim"
            )
        ),
        overrides=PLAN.override_flags(),
    message:
        "{wildcards.experiment}: verdicts, tables, figures and report"
    shell:
        "python -m workflow.jobs.report --experiment {wildcards.experiment} --branch {params.branch}"
        " --out results/{wildcards.experiment} {params.overrides} --log {log:q}"
