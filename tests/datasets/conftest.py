"""Data tests run against folders of their own and a server on the loopback, never against the network."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import CONTENT, Server
from mirrors import MIRRORS

from mogp.datasets import store
from mogp.datasets.registry import DataFile


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache, no mirror, no package that carries data, downloads tried once."""
    monkeypatch.setenv("MOGP_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("MOGP_DATA_MIRROR", raising=False)
    monkeypatch.delenv("MOGP_OFFLINE", raising=False)
    monkeypatch.setattr(store, "RETRIES", 0)
    monkeypatch.setattr(store, "PACKAGED", {})
    monkeypatch.setattr(store, "_session", [])
    monkeypatch.setattr(store, "_alive", set())
    monkeypatch.setattr(store, "_dead", {})
    return tmp_path / "cache"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real files, where there is one."""
    for folder in MIRRORS:
        if (folder / "motor" / "mcycle.csv").is_file():
            return folder
    pytest.skip("needs the real data files: set MOGP_DATA_MIRROR to a folder that holds motor/mcycle.csv")


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield running
        running.shutdown()


@pytest.fixture
def file(server) -> DataFile:
    """A registered file of the server."""
    return DataFile("set/file.bin", ("set",), len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), url=server.url)


@pytest.fixture
def leftovers(cache) -> Callable[[], list[str]]:
    """Names of all files under the cache."""
    return lambda: sorted(name for _, _, names in os.walk(cache) for name in names)
