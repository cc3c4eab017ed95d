"""A look at the endpoints of all model roles, without a run."""


rule check_endpoints:
    """What the endpoints of the configuration serve and can do; writes endpoints.json, and runs whenever it is asked for."""

    # The file is no output: what an endpoint serves may change at any time, so no file of a former look stands for it.
    log:
        f"{RESULTS}/logs/check_endpoints.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("check_endpoints"),
        code=PLAN.code("check_endpoints"),
        file=f"{RESULTS}/endpoints.json",
    message:
        "Looking at the endpoints of the configuration"
    script:
        "../workflow/scripts/check_endpoints.py"
