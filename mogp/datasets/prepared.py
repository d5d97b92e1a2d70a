"""Arrays that take long to make from raw files, kept in the cache beside them."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping

import numpy as np

from mogp.datasets import store
from mogp.datasets.dataset import Array
from mogp.datasets.registry import registry
from mogp.files import write_atomically


def prepared(
    name: str, paths: tuple[str, ...], make: Callable[[], Mapping[str, Array]]
) -> dict[str, Array]:
    """What `make()` gives, read back from the cache if it was made before from the same files.

    Args:
        name: of the arrays, with every option that they depend on and a version
            ("omniglot-20x20-v1").
        paths: registered files they are made from; when a checksum changes, they are made again.
        make: gives the arrays by name; they must not be object arrays.
    """
    sums = "".join(registry()[path].sha256 for path in paths)
    file = f"prepared/{name}-{hashlib.sha256(sums.encode()).hexdigest()[:12]}.npz"
    for folder in store.cache_folders():
        try:
            with np.load(folder / file, allow_pickle=False) as kept:
                return dict(kept)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            (folder / file).unlink(missing_ok=True)
    arrays = dict(make())
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_atomically(store.writable_folder() / file, content.getvalue())
    return arrays
