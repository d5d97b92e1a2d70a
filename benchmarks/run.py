"""Runs every benchmark of this folder that needs no other environment; `make bench` calls it."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "lmc_step.py",
    "optimizer_step.py",
    "batch_growth.py",
    "class_growth.py",
    "label_step.py",
    "label_growth.py",
    "one_vs_each_step.py",
    "count_growth.py",
    "patch_step.py",
    "latent_step.py",
    "gplar_step.py",
    "data_loading.py",
)

if __name__ == "__main__":
    failed = [name for name in BENCHMARKS if subprocess.run([sys.executable, name], check=False).returncode]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
