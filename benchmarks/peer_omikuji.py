"""Omikuji (trees of linear classifiers) on points with many labels, in the peers' environment; prints one JSON line.

Usage: python peer_omikuji.py TRAIN TEST hinge|log, with files in the format of the Extreme Classification Repository.
Prints the version, the processor seconds of training and of ranking the test points (one thread), and the first labels
of each test point with their scores.
"""

import json
import sys
import time

import omikuji

TOP = 10


def points(path):
    """The inputs of each point of a file, as pairs."""
    with open(path) as lines:
        next(lines)
        for line in lines:
            yield [(int(p.split(":")[0]), float(p.split(":")[1])) for p in line.rstrip("\n").split(" ")[1:] if p]


train, test, loss = sys.argv[1:]
settings = omikuji.Model.default_hyper_param()
settings.linear_loss_type = omikuji.LossType[loss.upper()].value
began = time.process_time()
model = omikuji.Model.train_on_data(train, settings, n_threads=1)
trained = time.process_time()
model.init_prediction_thread_pool(1)
rows = list(points(test))
read = time.process_time()
ranked = [model.predict(row, top_k=TOP) for row in rows]
done = time.process_time()
print(
    json.dumps(
        {
            "version": omikuji.__version__,
            "train_seconds": trained - began,
            "rank_seconds": done - read,
            "labels": [[label for label, _ in one] for one in ranked],
            "scores": [[score for _, score in one] for one in ranked],
        }
    )
)
