"""A file is found in the stated order, arrives whole and verified or not at all, and failure says what to do."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
import requests
from loopback import CONTENT, body, whole

from mogp.datasets import store
from mogp.datasets.store import DataUnavailableError, check, fetch, find

FETCH = """
import sys, mogp.datasets.store as store
from mogp.datasets.registry import DataFile
path, sha256, size, url = sys.argv[1:]
print(store.fetch(DataFile(path, ("set",), int(size), sha256, url=url)).path)
"""


def fetching_process(file):
    arguments = [sys.executable, "-c", FETCH, file.path, file.sha256, str(file.bytes), file.url]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def truncated(handler):
    body(handler, CONTENT[:1000], length=len(CONTENT))


def other_bytes(handler):
    body(handler, CONTENT[::-1])


def not_found(handler):
    handler.send_error(404)


def a_file_instead_of_a_folder(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not a folder")


def test_download_is_kept_and_not_repeated(file, server, cache):
    first, second = fetch(file), fetch(file)
    assert first == second
    assert first.path == cache / "set" / "file.bin"
    assert first.path.read_bytes() == CONTENT
    assert server.requests == 1


def test_interrupted_download_is_tried_again(file, server, leftovers, monkeypatch):
    monkeypatch.setattr(store, "RETRIES", 1)
    server.answers = [truncated, whole]
    assert fetch(file).path.read_bytes() == CONTENT
    assert leftovers() == ["file.bin"]


def test_interrupted_download_leaves_nothing_and_a_later_one_succeeds(file, server, leftovers):
    server.answers = [truncated, whole]
    with pytest.raises(DataUnavailableError, match=r"network: .*(broke|failed)"):
        fetch(file)
    assert leftovers() == []
    assert fetch(file).path.read_bytes() == CONTENT


def test_process_killed_while_downloading_leaves_no_file_under_the_final_name(file, server, cache):
    half_sent, go_on = threading.Event(), threading.Event()

    def stalls(handler):
        body(handler, CONTENT[:70_000], length=len(CONTENT))
        half_sent.set()
        go_on.wait(20)

    server.answers = [stalls, whole]
    process = fetching_process(file)
    assert half_sent.wait(20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    go_on.set()
    assert not (cache / file.path).exists()
    assert fetch(file).path.read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_not_kept(file, server, leftovers):
    server.answers = [other_bytes]
    with pytest.raises(DataUnavailableError, match=r"network: .*hash"):
        fetch(file)
    assert leftovers() == []


def test_missing_address_is_reported_with_the_command_to_run(file, server, leftovers):
    server.answers = [not_found]
    with pytest.raises(DataUnavailableError) as caught:
        fetch(file)
    message = str(caught.value)
    assert "404" in message
    assert "`mogp data fetch set`" in message
    assert f"MOGP_DATA_MIRROR to a folder that holds {file.path}" in message
    assert leftovers() == []


def test_refused_connection_fails_at_once(file):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = replace(file, url=f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin")
    start = time.monotonic()
    with pytest.raises(DataUnavailableError, match=r"cannot reach|there is no network"):
        fetch(dead)
    assert time.monotonic() - start < 5


def test_silent_server_does_not_hang_a_load(file, server, monkeypatch):
    monkeypatch.setattr(store, "READ_SECONDS", 0.2)
    release = threading.Event()
    server.answers = [lambda handler: release.wait(20)]
    with pytest.raises(DataUnavailableError, match="network: "):
        fetch(file)
    release.set()


def test_being_offline_is_found_out_once_in_under_three_seconds(file, monkeypatch):
    asked = []

    def silent(host, timeout):
        asked.append(host)
        time.sleep(20)

    monkeypatch.setattr(requests, "head", silent)
    start = time.monotonic()
    for number in range(30):
        with pytest.raises(DataUnavailableError, match="there is no network"):
            fetch(replace(file, path=f"set/{number}.bin", url=f"http://host{number}.invalid/file.bin"))
    assert time.monotonic() - start < 3
    assert len(asked) == 3


def test_hosts_are_asked_once_until_a_download_fails(file, server, monkeypatch):
    asked, head = [], requests.head
    monkeypatch.setattr(store, "registry", dict)
    monkeypatch.setattr(requests, "head", lambda host, timeout: (asked.append(host), head(host, timeout=timeout)))
    for number in range(3):
        fetch(replace(file, path=f"set/{number}.bin"))
    assert len(asked) == 1
    with pytest.raises(DataUnavailableError, match="cannot reach"):
        fetch(replace(file, path="set/3.bin", url="http://nowhere.invalid/file.bin"))
    fetch(replace(file, path="set/4.bin"))
    assert len(asked) == 2


def test_offline_is_forgotten_after_a_while(file, server, monkeypatch):
    monkeypatch.setattr(store, "_dead", {"": time.monotonic() - store.OFFLINE_SECONDS - 1})
    assert fetch(file).path.read_bytes() == CONTENT
    monkeypatch.setattr(store, "_dead", {"": time.monotonic()})
    with pytest.raises(DataUnavailableError, match="there is no network"):
        fetch(replace(file, path="set/other.bin"))


def test_one_dead_host_does_not_make_us_offline(file, server, monkeypatch):
    """The host asked for is silent, another one answers: the download itself is tried."""
    monkeypatch.setattr(store, "registry", lambda: {"other": file})
    monkeypatch.setattr(store, "CONNECT_SECONDS", 0.5)
    with pytest.raises(DataUnavailableError, match="cannot reach"):
        fetch(replace(file, url="http://nowhere.invalid/file.bin"))
    assert fetch(file).path.read_bytes() == CONTENT


def test_git_blob_serves_as_checksum(file, server, leftovers):
    blob = hashlib.sha1(f"blob {len(CONTENT)}\0".encode() + CONTENT).hexdigest()
    known = replace(file, sha256="", git_blob=blob)
    assert fetch(known).path.read_bytes() == CONTENT
    assert "expected 102400 bytes with 00000" in check(find(known).path, replace(known, git_blob="0" * 40))
    server.answers = [other_bytes]
    with pytest.raises(DataUnavailableError, match=r"network: .*another version"):
        fetch(replace(known, path="set/other.bin"))
    assert leftovers() == ["file.bin"]


def test_file_without_checksum_is_taken_unless_empty(file, cache):
    unknown = replace(file, sha256="", bytes=0)
    assert fetch(unknown).path.read_bytes() == CONTENT
    (cache / file.path).write_bytes(b"")
    assert "is empty" in check(cache / file.path, unknown)


def test_alternative_on_this_machine_comes_before_a_download(file, server, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "set").mkdir(parents=True)
    (mirror / "set" / "as-good.bin").write_bytes(CONTENT)
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(mirror))
    known = {file.path: file, "set/as-good.bin": replace(file, path="set/as-good.bin", url="")}
    monkeypatch.setattr(store, "registry", lambda: known)
    assert store.path_of(file.path, "set/as-good.bin") == mirror / "set" / "as-good.bin"
    assert server.requests == 0
    (mirror / "set" / "as-good.bin").unlink()
    assert store.path_of("set/as-good.bin", file.path).read_bytes() == CONTENT
    server.answers = [not_found]
    (store.cache_folder() / file.path).unlink()
    with pytest.raises(DataUnavailableError, match=r"(?s)no copy of set/as-good\.bin.*no copy of set/file\.bin"):
        store.path_of("set/as-good.bin", file.path)


def test_offline_never_touches_the_network(file, server, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match="MOGP_OFFLINE forbids downloads"):
        fetch(file)
    assert server.requests == 0


def test_cache_comes_before_mirror_and_mirror_before_network(file, server, tmp_path, cache, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "set").mkdir(parents=True)
    (mirror / file.path).write_bytes(CONTENT)
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(mirror))
    assert fetch(file).place == "mirror"
    (cache / "set").mkdir(parents=True)
    (cache / file.path).write_bytes(CONTENT)
    assert fetch(file).place == "cache"
    assert server.requests == 0


def test_corrupt_mirror_is_passed_over_and_named(file, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "set").mkdir(parents=True)
    (mirror / file.path).write_bytes(CONTENT[:-1])
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(mirror))
    assert fetch(replace(file, path="set/file.bin")).place == "cache"
    (store.cache_folder() / file.path).unlink()
    with pytest.raises(
        DataUnavailableError, match=f"mirror: {mirror / file.path} is corrupt or another version: 102399"
    ):
        fetch(replace(file, url=""))


def test_corrupt_cached_file_is_replaced(file, cache):
    (cache / "set").mkdir(parents=True)
    (cache / file.path).write_bytes(b"")
    assert find(file) is None
    assert fetch(file).path.read_bytes() == CONTENT
    assert check(cache / file.path, file) is None


def test_unwritable_cache_does_not_disturb_the_mirror(file, server, tmp_path, cache, monkeypatch):
    a_file_instead_of_a_folder(cache)
    mirror = tmp_path / "mirror"
    (mirror / "set").mkdir(parents=True)
    (mirror / file.path).write_bytes(CONTENT)
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(mirror))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetch(file).place == "mirror"


def test_download_with_unwritable_cache_lasts_for_the_process_and_says_so(file, server, cache):
    a_file_instead_of_a_folder(cache)
    with pytest.warns(UserWarning, match="cannot be written .* Set MOGP_DATA_CACHE"):
        path = fetch(file).path
    assert path.read_bytes() == CONTENT
    assert fetch(file).path == path
    assert server.requests == 1


def test_two_processes_at_once_both_get_the_file(file, server, leftovers):
    both = threading.Barrier(2, timeout=10)

    def together(handler):
        """Both at the same time, unless the other is late: a client gives up after half a minute."""
        with suppress(threading.BrokenBarrierError):
            both.wait()
        whole(handler)

    server.answers = [together]
    processes = [fetching_process(file) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert leftovers() == ["file.bin"]
    assert find(file).path.read_bytes() == CONTENT


def test_installed_package_comes_before_the_network(file, server, cache, monkeypatch):
    monkeypatch.setitem(store.PACKAGED, file.path, lambda: CONTENT)
    assert fetch(file).path == cache / file.path
    assert (cache / file.path).read_bytes() == CONTENT
    assert server.requests == 0


def test_package_of_another_version_or_absent_is_reported(file, monkeypatch):
    carried = replace(file, url="", package="carrier==1.2")
    monkeypatch.setitem(store.PACKAGED, file.path, lambda: b"older")
    with pytest.raises(DataUnavailableError, match=r"the right one is in carrier==1.2"):
        fetch(carried)

    def absent():
        raise ImportError("carrier")

    monkeypatch.setitem(store.PACKAGED, file.path, absent)
    with pytest.raises(DataUnavailableError, match=r"carrier==1.2 is not installed(.|\n)*--no-deps carrier==1.2`"):
        fetch(carried)
