"""Save a model to one file, and load it again."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import warnings
import zipfile
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from gpflow.utilities import parameter_dict, read_values

_FORMAT = 2
_PACKAGES = ("mogp-companion", "gpflow", "tensorflow-probability", "tf-keras", "numpy")


def save(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a model, with its structure and all its values, to one file (by convention
    `name.mogp`).

    The file holds a pickle of the model, its parameter values as plain arrays, and the versions it
    was made with. It is written beside its final name and moved there when complete.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> import tempfile
    >>> from mogp import load, save
    >>> from mogp.models import ExactLMC
    >>> path = save(ExactLMC(data), f"{tempfile.mkdtemp()}/model.mogp")
    >>> load(path).names
    ('output 0', 'output 1')
    """
    path = Path(path)
    meta = {
        "format": _FORMAT,
        "model": f"{type(model).__module__}.{type(model).__qualname__}",
        "versions": {name: version(name) for name in _PACKAGES},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("meta.json", json.dumps(meta, indent=2))
            with archive.open("values.npz", "w") as stream:
                np.savez(stream, **read_values(model))
            archive.writestr("model.pickle", pickle.dumps(model))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by `save`.

    Only load files you trust: a pickle can run code. A file of another format, or of another major
    version of the packages, is refused with what to do; another minor version gives a warning.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> import tempfile
    >>> from mogp import load, save
    >>> from mogp.models import ExactLMC
    >>> model = ExactLMC(data)
    >>> again = load(save(model, f"{tempfile.mkdtemp()}/model.mogp"))
    >>> bool(np.all(again.predict_y([0.5]).mean == model.predict_y([0.5]).mean))
    True
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no model file {path}.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not a model file: expected one written by mogp.save.")
    with zipfile.ZipFile(path) as archive:
        if "meta.json" not in archive.namelist():
            raise ValueError(f"{path} is not a model file: expected one written by mogp.save.")
        meta = json.loads(archive.read("meta.json"))
        _check_versions(meta, path)
        try:
            content = archive.read("model.pickle")
        except (zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise ValueError(
                f"{path} is damaged ({error}). Copy it again, or train again."
            ) from error
        model = pickle.loads(content)
        with archive.open("values.npz") as stream, np.load(stream, allow_pickle=False) as values:
            current = parameter_dict(model)
            differs = [
                k
                for k in values.files
                if k not in current or not np.allclose(current[k], values[k], equal_nan=True)
            ]
    if differs:
        raise ValueError(
            f"{path} is damaged or was made by other versions: {', '.join(differs[:3])} differ from"
            " the stored values."
        )
    return model


def _check_versions(meta: dict[str, Any], path: Path) -> None:
    if meta.get("format") != _FORMAT:
        then = meta.get("versions", {}).get("mogp-companion", "an unknown version")
        raise ValueError(
            f"{path} has format {meta.get('format')}, this version of mogp reads format {_FORMAT}. "
            f"It was written with mogp-companion {then}: install that"
            f" (pip install mogp-companion=={then}), or train again."
        )
    for name, then in meta["versions"].items():
        now = version(name)
        if then.split(".")[0] != now.split(".")[0]:
            raise ValueError(
                f"{path} was written with {name} {then}, installed is {now}. Install"
                f" {name}=={then}, or train again."
            )
        if then.split(".")[1:2] != now.split(".")[1:2]:
            warnings.warn(
                f"{path} was written with {name} {then}, installed is {now}: compare its"
                " predictions.",
                stacklevel=3,
            )
