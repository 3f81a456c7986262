"""What of DataFusion could let one row, or a session of somebody else, decide more than its own part; and who hears of it."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext, udf

import sordino as sd
from sordino.data import PrivacyUnit, open_source, prepare_counts
from sordino.data.sources import datafusion as module
from sordino.data.sources.datafusion_words import DATAFUSION
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from support.counted import SALT, counts_as_the_oracle, table
from support.number_states import GRIDS, agrees, asked, floats, wholes
from support.tables import made
from support.told import CANARY, ask as ask_in_silence, frame

ROW = PrivacyUnit.row()


def count(source, **options):
    return prepare_counts(open_source(source), ROW, kind="rows", **options).run().values.tolist()


def labels(source, item, domain=None):
    domain = domain or sd.Domain.unlisted(delta=1e-6, least=1)
    return prepare_counts(open_source(source), ROW, kind="items", item=item, domain=domain).run()


# ---- the same states as elsewhere -----------------------------------------------------------------------------------------


def test_every_kind_of_count_is_that_of_the_rows():
    rows = table(5)
    kinds = {"user": pa.int64(), "item": pa.string(), "price": pa.int64()}
    arrow = pa.table(
        {name: pa.array([row[n] for row in rows], kind) for n, (name, kind) in enumerate(kinds.items())}
    )
    counts_as_the_oracle(open_source(made(None, "datafusion", arrow)), rows)


@pytest.mark.parametrize(
    "grid", ["from 0", *(pytest.param(n, marks=pytest.mark.slow) for n in GRIDS if n != "from 0")]
)
def test_floats_have_the_states_of_their_arrays(grid):
    values = floats(GRIDS[grid])
    agrees(made(None, "datafusion", pa.table({"x": pa.array(values, pa.float64())})), values, GRIDS[grid])


@pytest.mark.parametrize(
    "kind",
    [pa.uint64(), *(pytest.param(n, marks=pytest.mark.slow) for n in (pa.uint8(), pa.int8(), pa.int64()))],
    ids=str,
)
def test_whole_numbers_have_the_states_of_their_arrays(kind):
    signed = not str(kind).startswith("u")
    low, high = (
        (-(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1)
        if signed
        else (0, (1 << kind.bit_width) - 1)
    )
    values = wholes(GRIDS["made up"], low, high)
    agrees(made(None, "datafusion", pa.table({"x": pa.array(values, kind)})), values, GRIDS["made up"])


# ---- refused before the charge, or of no effect ---------------------------------------------------------------------------


def test_columns_that_are_no_labels():
    frame = made(
        None,
        "datafusion",
        pa.table(
            {"x": [1.5], "l": [[1]], "t": pa.array([0], pa.timestamp("us")), "b": [b"\0"], "n": pa.nulls(1)}
        ),
    )
    source = open_source(frame)
    with pytest.raises(InvalidParameter, match="floats for a datafusion source"):
        prepare_counts(source, PrivacyUnit("x"), kind="units")
    for name in "ltbn":
        with pytest.raises(InvalidParameter, match="texts, numbers, dates or booleans"):
            prepare_counts(source, ROW, kind="items", item=name, domain=["1"])
        with pytest.raises(InvalidParameter):
            source.predicate(f"{name} IS NULL")
    wide = made(None, "datafusion", pa.table({"x": pa.array([None], pa.decimal128(38, 19))}))
    with pytest.raises(InvalidParameter, match="at most 18 digits"):
        asked(wide, GRIDS["one edge"])


def test_two_columns_of_one_name_are_refused():
    context = SessionContext()
    one, other = (context.from_pydict({"k": [1], "x": [2]}, name=name) for name in "ab")
    with pytest.raises(InvalidParameter, match="different names"):
        open_source(one.join(other, left_on="k", right_on="k", coalesce_duplicate_keys=False))


def test_a_cast_that_there_is_not_is_refused_before_the_charge():
    """Over no row it would not be looked at, and the release would end after its charge."""
    frame = made(None, "datafusion", pa.table({"d": pa.array([1], pa.decimal128(9, 2))}))
    with pytest.raises(DataSourceError, match="cannot plan"):
        prepare_counts(open_source(frame), ROW, kind="rows", where="TRY_CAST(d AS BOOLEAN) IS NULL")


def answers(context):
    visits = {
        "u": [f"u{i % 9}" for i in range(60)],
        "g": ["aé\U0001f600"[i % 3] for i in range(60)],
        "x": [i / 4 for i in range(60)],
    }
    frame, unit = context.from_pydict(visits), PrivacyUnit("u", max_rows=2)
    items = prepare_counts(
        open_source(frame),
        unit,
        kind="items",
        item="g",
        domain=["a", "é", "😀"],
        salt=SALT,
        where="x * 2 <> 3 AND g LIKE '_'",
    )
    numbers = asked(frame, GRIDS["from 0"], unit=unit, by="g", domain=["a", "é"], groups_per_unit=1)
    return [items.run().values.tolist(), *(one.counts.tolist() for one in numbers.run())]


def test_settings_and_functions_of_the_session_change_nothing():
    own = SessionContext(
        SessionConfig(
            {
                "datafusion.sql_parser.enable_ident_normalization": "false",
                "datafusion.sql_parser.parse_float_as_decimal": "true",
                "datafusion.sql_parser.dialect": "mysql",
                "datafusion.sql_parser.default_null_ordering": "nulls_max",
                "datafusion.execution.batch_size": "3",
                "datafusion.execution.time_zone": "-05:00",
            }
        )
    )
    for name in ("sha256", "encode", "isnan", "strpos"):
        own.register_udf(
            udf(lambda column: pa.array([1] * len(column)), [pa.string()], pa.int64(), "immutable", name)
        )
    assert answers(own) == answers(SessionContext())


def test_tables_of_the_names_of_a_question_are_other_tables():
    context = SessionContext()
    for name in ("rows", "labels", "source", "kept", "counted"):
        context.from_pydict({"c0": [9], "label": ["z"], "position": [0]}, name=name)
    assert labels(context.table("labels"), "label", ["z", "y"]).values.tolist() == [0, 1]
    assert count(context.sql("SELECT c0 FROM rows UNION ALL SELECT c0 FROM source")) == [2]


def test_bytes_that_are_no_text_are_missing():
    bad = pa.StringArray.from_buffers(
        4, pa.py_buffer(np.array([0, 1, 2, 3, 5], dtype=np.int32).tobytes()), pa.py_buffer(b"a\xffb\xc3\x28")
    )
    for domain in (None, sd.Domain.assume_public()):
        found = labels(made(None, "datafusion", pa.table({"item": bad})), "item", domain)
        assert (list(found.labels), found.values.tolist()) == (["a", "b"], [1, 1])


def test_dates_that_no_other_engine_would_write_are_missing():
    days = pa.array([0, 2**31 - 1, -(2**31), 2932896, 2932897, -719162, -719163], pa.int32()).cast(
        pa.date32()
    )
    found = labels(made(None, "datafusion", pa.table({"day": days})), "day")
    assert list(found.labels) == ["0001-01-01", "1970-01-01", "9999-12-31"]


def test_decimals_beyond_their_type_end_nothing():
    """Arrow lets such values be."""
    wide = pa.array([10**37, -(10**37), 150], pa.decimal128(38, 0))
    bad = pa.Array.from_buffers(pa.decimal128(5, 2), 3, wide.buffers())
    frame = made(None, "datafusion", pa.table({"x": bad}))
    [counts] = asked(frame, GRIDS["made up"]).run()
    assert counts.counts.sum() == 3
    assert asked(frame, GRIDS["one edge"]).totals([module_range()])[0].known == 3


def module_range():
    return sd.data.StepRange(low=-(1 << 52), high=1 << 52, step=1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_of_either_sign_is_one(sign):
    nan = np.copysign(np.array([np.nan] * 3), sign)
    frame = made(None, "datafusion", pa.table({"x": nan}))
    assert count(frame, where="x > 1e308") == [3]
    found = asked(frame, GRIDS["from 0"]).count()
    assert (found.buckets[0].records, found.known, found.missing) == (0, 0, 3)


# ---- silence --------------------------------------------------------------------------------------------------------------


FAILING = f"SELECT CAST(x AS INT) AS n FROM (VALUES ('{CANARY}'), ('1')) AS t(x)"
"""Its rows stand in the plan itself: DataFusion computes them while it makes a plan."""


def refused_after_charge(question):
    with pytest.raises(DataSourceError) as caught:
        question.run()
    assert str(caught.value) == DataSourceError.AFTER_CHARGE
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def listen(work):
    """Return what is logged meanwhile, at every level: Rust asks the loggers of Python, so in a process of its own kind."""
    heard = io.StringIO()
    handler, root, before = logging.StreamHandler(heard), logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        work()
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    return heard.getvalue()


def test_a_frame_that_fails_on_a_row_says_one_sentence(capfd):
    """Its rows are not met before the charge."""
    frame = SessionContext().sql(FAILING)
    heard = listen(
        lambda: refused_after_charge(prepare_counts(open_source(frame), PrivacyUnit("n"), kind="units"))
    )
    out, err = capfd.readouterr()
    assert CANARY not in heard + out + err


TOLD = """
import logging, os, sys
logging.basicConfig(level=1, stream=sys.stdout)
from datafusion import SessionContext
logging.getLogger("datafusion_optimizer.utils").setLevel(1)  # whatever its owner wants to hear of other queries
if "warm" in sys.argv:
    SessionContext().sql("SELECT 1").collect()
from support import told
visits = told.frame()
print("begin", flush=True)
told.ask(visits, twin={twin})
sys.stdout.flush()
os._exit(0)  # its threads still log, and would abort an interpreter that is about to end
"""


def told(*, twin, warm):
    """Return what a process of its own logs of a question: the engine keeps in mind who wanted to hear what."""
    ran = subprocess.run(
        [sys.executable, "-c", TOLD.format(twin=twin), *(["warm"] if warm else [])],
        check=True, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1])),
    )  # fmt: skip
    assert not ran.stderr
    return ran.stdout.partition("begin")[2]


@pytest.mark.parametrize("warm", [True, False])
def test_nothing_is_logged_of_a_question(warm):
    assert "datafusion" not in told(twin=False, warm=warm)


def test_the_engine_would_have_logged_the_salt():
    """The twin: without the mute."""
    assert SALT.hex() in told(twin=True, warm=True)


def test_loggers_are_as_they_were():
    logger = logging.getLogger("datafusion_optimizer")
    logger.setLevel(17)
    ask_in_silence(frame())
    assert (logger.level, logger.disabled) == (17, False)
    logger.setLevel(logging.NOTSET)


def test_what_is_written_to_disk_is_private_and_removed(monkeypatch):
    """Where memory is short, sorted rows go to a folder that nobody else may read."""
    folders = []
    before = module.TemporaryDirectory

    class Seen(before):
        def __enter__(self):
            folders.append((Path(self.name), Path(self.name).stat().st_mode & 0o777))
            return super().__enter__()

    monkeypatch.setattr(module, "TemporaryDirectory", Seen)
    ask_in_silence(frame())
    assert folders
    assert all(mode == 0o700 and not folder.exists() for folder, mode in folders)


def test_repr_shows_no_row():
    source = open_source(SessionContext().from_pydict({"u": [CANARY]}))
    assert CANARY not in repr(source) + repr(source.backend)


# ---- interrupts -----------------------------------------------------------------------------------------------------------


SLOW = (
    "SELECT v AS n FROM generate_series(1, 100000000000) AS t(v)"
    " WHERE encode(sha256(CAST(v AS VARCHAR)), 'hex') LIKE 'zz%'"
)


@pytest.mark.slow
def test_an_interrupt_stops_the_query():
    question = prepare_counts(open_source(SessionContext().sql(SLOW)), PrivacyUnit("n"), kind="units")
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        question.run()
    assert time.monotonic() - started < 20
    spent = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - spent < 0.4


def test_a_question_is_prepared_where_a_loop_is_running():
    """As in a notebook."""
    import asyncio

    async def inside():
        return count(SessionContext().from_pydict({"x": [1, 2]}))

    assert asyncio.run(inside()) == [2]


# ---- sessions -------------------------------------------------------------------------------------------------------------


def test_sessions_release_everything():
    rows = {
        "u": [f"u{i % 50}" for i in range(200)],
        "item": [["tea", "rice", "salt", None][i % 4] for i in range(200)],
        "n": [i % 7 for i in range(200)],
    }
    frame = SessionContext().from_pydict(rows)
    with sd.Session(frame, unit=PrivacyUnit("u", max_rows=2), ledger=None, entropy=sd.Seeded(1)) as s:
        assert s.count_distinct_units(epsilon=200).estimate == pytest.approx(50, abs=1)
        assert s.count(epsilon=200).estimate == pytest.approx(100, abs=2)
        top = s.top_k("item", k=2, epsilon=50, domain=["tea", "rice", "salt", "gold"])
        assert {row.item for row in top} <= {"tea", "rice", "salt"}
        unlisted = s.top_k("item", k=2, epsilon=50, domain=sd.Domain.unlisted(delta=1e-3))
        assert {row.item for row in unlisted} <= {"tea", "rice", "salt"}
        assert s.quantile("n", q=0.5, epsilon=20, lower=0, cap=100).value == pytest.approx(3, abs=1.5)
        by_item = s.mean(
            "n", epsilon=300, lower=0, cap=100, by="item", domain=["tea", "rice"], groups_per_unit=2
        )
        assert [row.release.value for row in by_item] == [pytest.approx(3, abs=1)] * 2
        assert s.variance("n", epsilon=300, lower=0, cap=10).value == pytest.approx(4, abs=2)
        with s.batch() as batch:
            above = s.above("item", threshold=5, positives=1, epsilon=20, domain=["tea", "rice"])
            wanted = s.histogram("item", epsilon=20, domain=["tea", "rice"], where="n BETWEEN 1 AND 5")
        assert batch.cost.pure() == 40
        assert above.result
        assert len(wanted.result) == 2


def test_a_table_of_ten_thousand_batches_is_one_table():
    assert DATAFUSION.words.materialized is False
    batches = [pa.record_batch({"x": [float(i)]}) for i in range(10_000)]
    context = SessionContext()
    context.register_record_batches("t", [batches])
    [counts] = asked(context.table("t"), GRIDS["from 0"]).run()
    assert counts.counts.sum() == 10_000


def test_types_that_rows_decide_are_refused(tmp_path):
    """One row more would decide whether a question is refused, for free."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "t.json").write_text('{"a": 1}\n', encoding="utf-8")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    context = SessionContext()
    context.register_csv("t", str(tmp_path / "t.csv"))
    for guessed in (
        context.read_csv(str(tmp_path / "t.csv")),
        context.table("t"),
        context.sql("SELECT b + 1 AS c FROM t WHERE a > 0"),
        context.read_json(str(tmp_path / "t.json")),
    ):
        with pytest.raises(
            UnsupportedBackend, match="must read files that declare the types of their columns"
        ):
            open_source(guessed)
    assert open_source(context.read_parquet(str(tmp_path / "t.parquet"))).columns
