"""One run in a process of its own: python -m defaults.one TASK SPLIT METHOD prints its row as JSON on the last line."""

from __future__ import annotations

import json
import sys

if __name__ == "__main__":
    from defaults.methods import measure
    from defaults.tasks import TASKS

    print(json.dumps(measure(TASKS[sys.argv[1]], int(sys.argv[2]), sys.argv[3])))
