from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from fuzz_targets import FILES, gzipped, tarred, zipped

from mogp.datasets.formats.archives import gunzip, iter_members, open_member, read_gzip, read_members
from mogp.datasets.formats.errors import DataFormatError

PACKED = {"zip": zipped(FILES), "tar": tarred(FILES), "tar.gz": gzipped(tarred(FILES))}


@pytest.fixture
def file(tmp_path):
    def write(content: bytes) -> Path:
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return write


def tar_of(info: tarfile.TarInfo, content: bytes = b"") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


@pytest.mark.parametrize("kind", PACKED)
def test_members_come_back_whole_and_in_sorted_order(kind, file):
    members = read_members(file(PACKED[kind]))
    assert members == FILES
    assert list(members) == sorted(FILES)
    assert list(iter_members(file(PACKED[kind]))) == sorted(FILES.items())


@pytest.mark.parametrize("kind", PACKED)
def test_only_wanted_members_are_read(kind, file):
    assert list(read_members(file(PACKED[kind]), lambda name: name.endswith(".bin"))) == ["c.bin"]


@pytest.mark.parametrize("kind", PACKED)
def test_a_member_can_be_read_by_lines(kind, file):
    with open_member(file(PACKED[kind]), "folder/a.txt") as stream:
        assert list(stream) == FILES["folder/a.txt"].splitlines(keepends=True)
    with pytest.raises(DataFormatError, match=r"has no member 'd'; it has c.bin"), open_member(file(PACKED[kind]), "d"):
        pass


def test_folders_are_no_members(file):
    assert read_members(file(zipped({"a/": b"", "a/b": b"1"}))) == {"a/b": b"1"}
    folder = tarfile.TarInfo("a")
    folder.type = tarfile.DIRTYPE
    assert read_members(file(tar_of(folder))) == {}


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "C:a", "C:\\a", "a\\b", "..", "a\nb", "a\x1bb"])
@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar"])
def test_names_that_leave_the_folder_condemn_the_archive_even_if_not_wanted(pack, name, file):
    with pytest.raises(DataFormatError, match="unsafe name"):
        read_members(file(pack({"fine": b"1", name: b"2"})), lambda member: member == "fine")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"S", b"x", b"?"]
)
def test_links_and_devices_in_a_tar_are_refused(kind, file):
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(DataFormatError, match="'odd' is of type"):
        read_members(file(tar_of(info)))


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_in_a_zip_are_refused(mode, file):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo("odd")
        info.external_attr = mode << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataFormatError, match="'odd' is a link or a device"):
        read_members(file(target.getvalue()))


def test_members_of_one_name_are_refused(file):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", "2")
    with pytest.raises(DataFormatError, match="'a' is there twice"):
        read_members(file(target.getvalue()))
    twice = tarred({"a": b"1"})[:1024] + tarred({"a": b"2"})
    with pytest.raises(DataFormatError, match="'a' is there twice"):
        read_members(file(twice))


def test_encrypted_and_exotic_zips_are_refused(file):
    content = bytearray(zipped({"a": b"1"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DataFormatError, match="'a' is encrypted"):
        read_members(file(bytes(content)))
    with pytest.raises(DataFormatError, match="packed by method 14"):
        read_members(file(zipped({"a": b"1"}, zipfile.ZIP_LZMA)))


@pytest.mark.parametrize("kind", PACKED)
def test_truncation_anywhere_is_an_error(kind, file):
    content = PACKED[kind]
    end = len(content) - 512 if kind == "tar" else len(content)  # one of tar's two blocks of zeros would do
    for length in range(0, end, 7):
        with pytest.raises(DataFormatError):
            read_members(file(content[:length]))


@pytest.mark.parametrize("pack", [zipped, lambda files: gzipped(tarred(files))], ids=["zip", "tar.gz"])
def test_a_bomb_stops_at_the_limit_whatever_it_declares(pack, file):
    content = pack({"bomb": b"a" * 2**26})
    assert len(content) < 2**17
    tracemalloc.start()
    with pytest.raises(DataFormatError, match="more than 1048576 bytes"):
        read_members(file(content), limit=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def test_the_limit_is_for_all_members_together(file):
    content = zipped({"a": bytes(600), "b": bytes(600)})
    assert len(read_members(file(content), limit=1200)) == 2
    with pytest.raises(DataFormatError, match="more than 1199 bytes"):
        read_members(file(content), limit=1199)


def test_a_size_declared_too_small_or_too_large_is_found(file):
    for declared in (5, 5000):
        content = bytearray(zipped({"a": bytes(1000)}))
        start = content.index(b"PK\x01\x02") + 24
        content[start : start + 4] = declared.to_bytes(4, "little")
        with pytest.raises(DataFormatError, match="'a' is damaged"):
            read_members(file(bytes(content)))


def test_many_extension_headers_do_not_exhaust_the_stack(file):
    header = tarfile.TarInfo("x")
    header.type = tarfile.GNUTYPE_LONGNAME
    with pytest.raises(DataFormatError):
        read_members(file(header.tobuf(tarfile.GNU_FORMAT) * 5000))


def test_a_negative_size_is_refused(file):
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 256)
    with pytest.raises(DataFormatError, match=r"declares -256 bytes"):
        read_members(file(bytes(header) + bytes(2048)))


def test_other_files_are_not_archives(file):
    for content in (b"", b"P", b"text " * 200, os.urandom(5000), b"PK"):
        with pytest.raises(DataFormatError):
            read_members(file(content))
    with pytest.raises(FileNotFoundError):
        read_members(file(b"").parent / "absent")


def test_gzip_files_are_unpacked_within_a_limit(file):
    content = bytes(range(256)) * 100
    assert read_gzip(file(gzip.compress(content))) == content
    assert gunzip(gzip.compress(b"a") + gzip.compress(b"b"), "name") == b"ab"
    with pytest.raises(DataFormatError, match="more than 25599 bytes"):
        read_gzip(file(gzip.compress(content)), limit=25599)
    for damaged in (b"", b"plain", gzip.compress(content)[:-1], gzip.compress(content) + b"tail"):
        with pytest.raises(DataFormatError):
            read_gzip(file(damaged))


def test_real_archives_have_their_published_members(shared_data):
    names = [name.split("/") for name, _ in iter_members(shared_data / "omniglot" / "images_background.zip")]
    assert (len(names), len({tuple(name[:3]) for name in names}), len({name[1] for name in names})) == (19280, 964, 30)
    trials = read_members(shared_data / "eeg" / "a_1_co2a0000364.tar.gz")
    assert len(trials) == 10
    assert all(gunzip(trial, name).startswith(b"# co2a0000364.rd") for name, trial in trials.items())
    with open_member(shared_data / "bibtex" / "Bibtex.zip", "Bibtex/Bibtex_data.txt") as lines:
        assert sum(1 for _ in lines) == 7395
    positions = read_members(shared_data / "ujiindoorloc" / "UJIndoorLoc.zip")
    assert [content.count(b"\n") for content in positions.values()] == [19938, 1112]
