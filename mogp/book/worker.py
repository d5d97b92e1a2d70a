"""Runs one chapter's notebook in a process of its own: `python -m mogp.book.worker`.

The first line of standard input is the job, `{"folder": …, "parameters": {…}, "cwd": …}`;
`source.ipynb` in the folder becomes `executed.ipynb`. Events go to standard output, one JSON object
a line. The end of standard input means that whoever asked for the run is gone: the worker and its
kernel then end at once.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
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
        argv = [
            sys.executable,
            "-Xfrozen_modules=off",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ]
        return KernelSpec(argv=argv, display_name="Python 3", language="python", name=kernel_name)


class ThisKernel(AsyncKernelManager):
    """Starts the running interpreter as the kernel, on sockets of the file system where the system
    has them.

    A free port of TCP is chosen first and bound later; between the two another kernel may take it,
    and this one dies.
    """

    @default("kernel_spec_manager")
    def _this_python(self) -> ThisPython:
        return ThisPython(parent=self)

    @default("connection_file")
    def _in_own_folder(self) -> str:
        return str(_sockets() / "kernel.json")

    @default("transport")
    def _sockets_or_ports(self) -> str:
        fits = len(f"{_sockets()}/kernel-ipc-5") < _LONGEST_SOCKET
        return "ipc" if os.name == "posix" and fits else "tcp"


_LONGEST_SOCKET = 100
"""Characters that the path of a socket may have on every system (104 with the closing zero on
macOS, 108 on Linux).
"""


@functools.cache
def _sockets() -> Path:
    """The folder of the kernel's sockets, for its owner only, removed when the worker ends."""
    return Path(tempfile.mkdtemp(prefix="mogp-"))


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
    finally:
        shutil.rmtree(_sockets(), ignore_errors=True)
    return 0


def _tell(events: IO[str], **event: Any) -> None:
    events.write(json.dumps(event) + "\n")


def _end_with_parent() -> None:
    sys.stdin.read()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    shutil.rmtree(_sockets(), ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
