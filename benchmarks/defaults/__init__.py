"""How good are the library's default fits? Tasks, methods, scores, and the page made from them.

    cd benchmarks
    python -m defaults.run --role development --methods default,old
    python -m defaults.page

`tasks` says what is predicted from what, `methods` who predicts, `scores` how well. `run` keeps a row for each
(task, split, method) in results.csv, and `page` writes the guide's page "How good are the defaults?" from it.
"""
