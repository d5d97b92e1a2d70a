"""Runs one chapter's notebook in a process of its own: `python -m mogp.companion.worker`.

The first line of standard input is the job, `{"folder": …, "parameters": {…}, "cwd": …}`; `source.ipynb` in the folder
becomes `executed.ipynb`. Events go to standard output, one JSON object a line. The end of standard input means that
whoever asked for the run is gone: the worker and its kernel then end at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import IO, Any

import papermill
import psutil
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from papermill.exceptions import PapermillExecutionError
from traitlets import default


class ThisPython(KernelSpecManager):
    """Knows one kernel, the running interpreter, whatever is or is not installed elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The running interpreter under any name."""
        argv = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python", name=kernel_name)


class ThisKernel(AsyncKernelManager):
    """Starts the running interpreter as the kernel."""

    @default("kernel_spec_manager")
    def _this_python(self) -> ThisPython:
        return ThisPython(parent=self)


def main() -> int:
    """Run the job; 0 on success, 1 when a cell fails."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(job["folder"])

    def started(cell: Any, cell_index: int) -> None:
        _tell(events, cell=cell_index)

    try:
        papermill.execute_notebook(
            str(folder / "source.ipynb"),
            str(folder / "executed.ipynb"),
            parameters=job["parameters"],
            cwd=job["cwd"],
            progress_bar=False,
            request_save_on_cell_execute=False,
            start_timeout=120,
            kernel_manager_class=ThisKernel,
            on_cell_start=started,
        )
    except PapermillExecutionError as error:
        trace = "\n".join(error.traceback) or f"{error.ename}: {error.evalue}"
        _tell(events, failed={"cell": error.cell_index, "source": error.source, "traceback": trace})
        return 1
    return 0


def _tell(events: IO[str], **event: Any) -> None:
    events.write(json.dumps(event) + "\n")


def _end_with_parent() -> None:
    sys.stdin.read()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
