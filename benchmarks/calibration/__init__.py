"""Are the bands of each family honest, and why are they too narrow where they are?

    cd benchmarks
    python -m calibration.run            # simulated data sets: those without a row yet
    python -m calibration.why            # real data: exact, joint and factorised posteriors beside each other
    python -m calibration.page

A family is judged on data drawn from its own prior, with all hyper-parameters at the values they were drawn with, so
that nothing but the posterior can be wrong. `drawn` has the draws, `mixtures`, `hierarchies` and `chains` the families,
`checks` the tests; a row for each data set is in simulated.csv. `why` compares posteriors of one model on real data,
and keeps its rows in why.csv. `page` writes the guide's page "Honest intervals" from both.
"""
