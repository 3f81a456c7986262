"""Compressed text files: they are read as what was packed, in bounded memory; what is damaged ends with the constant sentence."""

from __future__ import annotations

import gzip
import random
import sys
import tracemalloc
from unittest import mock

import pytest

from sordino import CsvFormat, PrivacyUnit
from sordino.errors import DataSourceError
from sordino.questions import open_markers, open_plink, open_scores, prepare_counts, prepare_records
from sordino.sources import open_source
from sordino.sources.csv import lines as lines_module, packed as packed_module
from sordino.sources.csv.packed import open_unpacked, unpacked_suffix
from support.text_files import PACKERS, hostile_lines, packed, rows_of, zstd

SUFFIXES = sorted(PACKERS)
HEADER = b"user,item,note\n"
CONSTANT = "The data engine could not finish"


def unpack(path, *, size=1 << 21):
    with open_unpacked(path) as file:
        got = file.readline(1 << 20)
        while piece := file.read(size):
            got += piece
        assert file.tell() == path.stat().st_size
    return got


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(4)
def test_what_was_packed_is_read_whatever_it_holds(tmp_path, suffix, seed):
    """The plain reading of the same bytes is the law, also where every boundary lies at a bad place."""
    rng = random.Random(seed)
    content = HEADER + b"".join(hostile_lines(rng, 400))
    (tmp_path / "plain.csv").write_bytes(content)
    wanted = rows_of(open_source(tmp_path / "plain.csv"))
    assert wanted.total() > 100
    path = tmp_path / f"packed.csv{suffix}"
    for pieces, size, block in ((1, 1 << 16, 1 << 21), (7, 3, 50), (3, 1, 1000)):
        path.write_bytes(packed(suffix, content, pieces))
        with (
            mock.patch.object(packed_module, "PACKED_PIECE", size),
            mock.patch.object(lines_module, "BLOCK", block),
        ):
            assert unpack(path, size=block) == content
            assert rows_of(open_source(path)) == wanted


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.sample(4)
def test_one_more_line_changes_nothing_but_its_own_record(tmp_path, suffix):
    rng, path = random.Random(7), tmp_path / f"t.csv{suffix}"
    for _ in range(12):
        some = hostile_lines(rng, 20)
        longer = list(some)
        longer.insert(rng.randrange(21), hostile_lines(rng, 1)[0])
        answers = []
        for body in (some, longer):
            path.write_bytes(packed(suffix, HEADER + b"".join(body)))
            answers.append(rows_of(open_source(path)))
        before, after = answers
        assert not before - after
        assert (after - before).total() <= 1


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_encodings_work_on_top(tmp_path, suffix, encoding):
    text = "u,i\nä,€\nplain,a\n"
    (tmp_path / f"t.csv{suffix}").write_bytes(packed(suffix, text.encode(encoding), 3))
    assert set(
        rows_of(open_source(tmp_path / f"t.csv{suffix}", csv=CsvFormat(encoding=encoding)))
    ) == {
        ("ä", "€"),
        ("plain", "a"),
    }


DAMAGE = {
    "cut off": lambda data: data[:-1],
    "cut off early": lambda data: data[: len(data) * 2 // 3],
    "garbage behind it": lambda data: data + b"garbage that is no other piece",
    "one byte behind it": lambda data: data + b"x",
    "other bytes at its end": lambda data: data[:-3] + b"abc",
    "other bytes in it": lambda data: (
        data[: len(data) // 2] + bytes(40) + data[len(data) // 2 + 40 :]
    ),
}


def large_content(seed=1):
    rng = random.Random(seed)
    return HEADER + b"".join(
        b"u%d,i%d,n%d\n" % (rng.randrange(10**6), rng.randrange(10**6), i) for i in range(20_000)
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.sample(4)
def test_what_is_damaged_behind_the_header_is_said_after_the_charge_only(tmp_path, suffix, name):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(DAMAGE[name](packed(suffix, large_content())))
    question = prepare_counts(open_source(path), PrivacyUnit.row(), kind="rows")
    with pytest.raises(DataSourceError, match=CONSTANT) as caught:
        question.run()
    assert "damaged" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_zeros_fill_up_a_gzip_file(tmp_path):
    path = tmp_path / "t.csv.gz"
    content = large_content()
    path.write_bytes(gzip.compress(content) + bytes(200_000))
    assert unpack(path) == content
    path.write_bytes(gzip.compress(content) + bytes(99) + gzip.compress(b"more"))
    assert unpack(path) == content + b"more"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"user,item,note\nu,i,n\n", b"PK\x03\x04", b"\x1f"])
def test_a_file_that_is_called_so_and_is_none_is_refused_at_opening(tmp_path, suffix, content):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataSourceError, match="as its name says"):
        open_source(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_table_and_a_file_without_a_header_line(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(packed(suffix, HEADER))
    assert rows_of(open_source(path)).total() == 0
    path.write_bytes(packed(suffix, b""))
    with pytest.raises(DataSourceError, match="begin with a header line"):
        open_source(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.sample(4)
def test_a_bomb_does_not_fill_the_memory(tmp_path, suffix):
    """A few kilobytes that unpack to one line of 100 MB, which is dropped as it comes."""
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(
        packed(suffix, HEADER + b"u,i,n\n")
        + PACKERS[suffix](bytes(100 << 20))
        + packed(suffix, b"\nv,i,n\n")
    )
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    blocks = list(lines_module.kept_blocks([path], CsvFormat(), HEADER.strip(), lambda size: None))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert b"".join(blocks) == b"u,i,n\nv,i,n\n"
    assert peak < 12 * lines_module.BLOCK


def with_window(content, window):
    """Return a zstandard file that says how much of what was unpacked must be kept."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window})
    return compressor.compress(content) + compressor.flush()


def test_a_window_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "t.csv.zst"
    path.write_bytes(with_window(large_content(), 27))
    assert unpack(path) == large_content()
    path.write_bytes(with_window(large_content(), 28))
    with pytest.raises(DataSourceError, match="damaged, or written with --long"):
        open_source(path)


def test_without_the_package_it_is_said_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.zst"
    path.write_bytes(packed(".zst", HEADER))
    for name in ("compression", "compression.zstd", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataSourceError, match=r"pip install 'sordino\[zstd\]'"):
        open_source(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_readers_of_files(tmp_path, suffix):
    """Records that are randomized, candidates, markers and reports of PLINK come through the same door."""
    (tmp_path / f"r.csv{suffix}").write_bytes(packed(suffix, b"u,x\na,1\na,2\nb,oops\n\n", 2))
    unit = PrivacyUnit("u", adjacency="replace-one", max_rows=1)
    question = prepare_records(open_source(tmp_path / f"r.csv{suffix}"), unit, column="x")
    progress = []
    numbers = [
        number for block in question.run(progress=progress.append) for number in block.tolist()
    ]
    assert [number if number == number else None for number in numbers] == [1.0, None, None, None]
    assert progress[-1] == 100
    (tmp_path / f"s.csv{suffix}").write_bytes(packed(suffix, b"name,score\na,1.5\nb,x\n", 2))
    file = open_scores(tmp_path / f"s.csv{suffix}", score="score", label="name", form=CsvFormat())
    assert file.read().labels == ("a", "b")
    (tmp_path / f"m.csv{suffix}").write_bytes(packed(suffix, b"snp,b,c\nrs1,3,4\n"))
    markers = open_markers(tmp_path / f"m.csv{suffix}", b="b", c="c", label="snp", form=CsvFormat())
    assert (markers.candidates(), markers.read().b.tolist()) == (1, [3.0])
    plink = b" CHR SNP BP A1 A2 T U OR\n 1 rs1 5 A C 7 9 0.5\n"
    (tmp_path / f"p.tdt{suffix}").write_bytes(packed(suffix, plink))
    assert open_plink(tmp_path / f"p.tdt{suffix}").read().c.tolist() == [9.0]
    assert unpacked_suffix(tmp_path / f"p.TDT{suffix.upper()}") == ".tdt"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_readers_of_damaged_files(tmp_path, suffix):
    content = b"u,x\n" + b"".join(b"%d,%d\n" % (i * i, i) for i in range(20_000))
    path = tmp_path / f"r.csv{suffix}"
    path.write_bytes(packed(suffix, content)[:-2])
    question = prepare_records(open_source(path), PrivacyUnit.row("replace-one"), column="x")
    with pytest.raises(DataSourceError, match=CONSTANT):
        list(question.run())
    file = open_scores(path, score="x", label="u", form=CsvFormat())
    with pytest.raises(DataSourceError, match="could not be read to its end"):
        file.read()
    path.write_bytes(content)
    with pytest.raises(DataSourceError, match="as its name says"):
        open_plink(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_progress_counts_packed_bytes(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(packed(suffix, large_content(), 3))
    seen = []
    list(lines_module.kept_blocks([path], CsvFormat(), HEADER.strip(), seen.append))
    # What was read for the header line is not counted.
    assert path.stat().st_size - packed_module.PACKED_PIECE <= sum(seen) <= path.stat().st_size


def test_a_reader_of_the_first_piece_alone_is_convicted(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    content = HEADER + b"u,i,n\n" * 50
    path.write_bytes(packed(".gz", content, 2))
    wanted = rows_of(open_source(path))
    assert wanted.total() == 50

    def stop(self):
        self._at_end = True

    monkeypatch.setattr(packed_module._Unpacked, "_begin_next_piece", stop)
    assert rows_of(open_source(path)).total() < 50


def test_a_reader_that_looks_ahead_is_convicted(tmp_path, monkeypatch):
    """What stands behind the header line would decide, before the charge, whether the table can be opened."""
    path = tmp_path / "t.csv.gz"
    path.write_bytes(packed(".gz", HEADER + b"u,i,n\n" * 50)[:-1])
    open_source(path)

    def readline(self, size):
        head, end, _ = self.read(size).partition(b"\n")
        return head + end

    monkeypatch.setattr(packed_module._Unpacked, "readline", readline)
    with pytest.raises(DataSourceError):
        open_source(path)
