# Every published table, figure, number and verdict again. Without an output: a check that is not run checks nothing.


rule tables:
    input:
        notes="workflow/report/notes.yaml",
    log:
        "logs/reproduce.log",
    localrule: True
    conda:
        "../envs/ridgefill.yaml"
    threads: lambda wildcards: workflow.cores
    resources:
        mem_mb=2000,
        runtime=10,
    message:
        "Rebuilding and checking every published number, without a model"
    shell:
        "python -m workflow.reproduce --jobs {threads} --log {log:q}"
