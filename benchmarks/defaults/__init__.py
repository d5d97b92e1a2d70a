"""How good are the library's default fits? Tasks, methods, scores, and the page made from them.

    cd benchmarks
    python -m defaults.run --role development --methods default,old
    python -m defaults.page

`tasks` says what is predicted from what, `methods` who predicts, `scores` how well. `run` keeps a row for each
(task, split, method) in results.csv, and `page` writes the guide's page "How good are the defaults?" from it.
"""

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    | {"TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "Agg"}
)  # before anything is imported that reads them
