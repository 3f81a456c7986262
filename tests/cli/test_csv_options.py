"""CSV files that are not plain, through the command: what is declared holds, what is not public says nothing."""

from __future__ import annotations

import pytest

from support.release_lines import latest, paid

LINES = [
    "Kunde;Betrag;Tag;Alter",
    *(f"Käufer{i};1.234,50;31.12.2024;{i % 50:03d}" for i in range(300)),
    *(f"Käufer{i};12,5;1.6.2024; {i % 50},0 " for i in range(300)),
    "Ann;1.5;30.02.2024;thirty",
]
TOTAL = 300 * (1234.5 + 12.5)
MARKS = ("--delimiter", ";", "--decimal", ",", "--thousands", ".")
TYPES = (
    "--type",
    "Betrag=decimal(12,2)",
    "--type",
    "Tag=date",
    "--type",
    "Alter=integer",
    "--date-format",
    "%d.%m.%Y",
)
SURE = ("--epsilon", 100_000, "--format", "json")
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16", "utf-16-be", "UTF16", "windows-1252")


@pytest.fixture
def sordino(sordino):
    """The command, with what else a release has to say."""

    def call(*arguments):
        if arguments[0] in {"ledger", "init"}:
            return sordino(*arguments)
        return sordino(*paid(*arguments), *(["--yes-i-mean-it"] if 100_000 in arguments else []))

    return call


def written(folder, encoding="utf-8", more=()):
    path = folder / "bills.csv"
    codec = {"UTF16": "utf-16", "windows-1252": "cp1252"}.get(encoding, encoding)
    path.write_bytes("\n".join([*LINES, *more, ""]).encode(codec))
    return path


@pytest.mark.parametrize("types", [(), TYPES], ids=["undeclared", "declared"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.sample(4)
def test_a_german_file_has_the_right_sum(tmp_path, sordino, encoding, types):
    path = written(tmp_path, encoding)
    done = sordino(
        *(
            "sum",
            path,
            "--column",
            "Betrag",
            "--lower",
            0,
            "--cap",
            1_000_000,
            "--row-is-unit",
            *MARKS,
            *types,
            *SURE,
        ),
        *("--encoding", encoding),
    )
    [row] = done.json["rows"]
    assert abs(row["estimate"] - TOTAL) < TOTAL / 100
    assert not row["capped"]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("Alter < 40", 480),
        ("alter = 7 AND Tag > '2024-07-01'", 6),
        ("Tag IS NULL", 1),
        ("Betrag BETWEEN 12 AND 13", 300),
        ("TRY_CAST(Kunde AS DATE) IS NULL", 601),
    ],
)
@pytest.mark.sample(4)
def test_predicates_compare_values(tmp_path, sordino, where, rows):
    done = sordino(
        "count", written(tmp_path), "--row-is-unit", *MARKS, *TYPES, *SURE, "--where", where
    )
    assert done.json["rows"][0]["estimate"] == rows


@pytest.mark.parametrize(
    "where",
    [
        "Betrag > 100",
        "TRY_CAST(Betrag AS DOUBLE) > 100",
        "NOT (TRY_CAST(betrag AS INTEGER) IS NULL)",
    ],
)
def test_a_text_with_a_decimal_comma_is_declared_and_not_cast(tmp_path, sordino, where):
    """Twin: the message named a cast that does not know the comma, and 300 rows were none."""
    asked = ("count", written(tmp_path), "--row-is-unit", *MARKS, *SURE, "--where", where)
    done = sordino(*asked)
    assert done.code == 2
    assert "--type Betrag=double" in done.err
    assert "TRY_CAST(price" not in done.err
    assert sordino(*asked[:-1], "Betrag > 100", "--type", "Betrag=double").code == 0
    # Of dates and texts a cast says nothing of marks.
    assert sordino(*asked[:-1], "TRY_CAST(Kunde AS DATE) IS NULL").code == 0


def test_units_are_values(tmp_path, sordino):
    path = written(tmp_path)
    asked = ("count", path, "--user", "Alter", "--units", *MARKS, *SURE)
    assert sordino(*asked, *TYPES).json["rows"][0]["estimate"] == 50
    # Without a type each spelling is a unit: 50 with three digits, 50 with a fraction, and one word.
    assert sordino(*asked).json["rows"][0]["estimate"] == 101


REFUSED = {
    "no such column": (("--type", "Preis=double"), "columns of "),
    "no such type": (("--type", "Betrag=money"), "must be one of integer, decimal"),
    "no type": (("--type", "Betrag"), "must be COL=TYPE"),
    "no column": (("--type", "=integer"), "must be COL=TYPE"),
    "twice": (("--type", "Betrag=text", "--type", "Betrag=double"), "each column once"),
    "marks alike": (("--thousands", ","), "another mark than decimal"),
    "the delimiter": (("--delimiter", ","), "than the delimiter"),
    "no mark": (("--decimal", "x"), "a point or a comma"),
    "no date": (("--type", "Tag=date", "--date-format", "%d.%m.%y"), "%Y (four digits"),
    "nothing to format": (("--date-format", "%d.%m.%Y"), "a column of type date"),
    "no such encoding": (("--encoding", "ebcdic"), "must be one of 'utf-8'"),
    "no mark of order": (("--encoding", "utf-16"), "no byte order mark"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_public_is_refused_before_the_charge(tmp_path, sordino, name):
    flags, said = REFUSED[name]
    path, ledger = written(tmp_path), tmp_path / "budget.db"
    account = ("--ledger", ledger, "--account", "bills")
    made = sordino(
        "ledger",
        "create",
        *account,
        "--epsilon",
        9,
        "--row-is-unit",
        "--source",
        path,
        "--delimiter",
        ";",
    )
    assert made.code == 0
    line = (
        "sum",
        path,
        "--column",
        "Betrag",
        "--lower",
        0,
        "--cap",
        9,
        "--row-is-unit",
        "--epsilon",
        1,
    )
    done = sordino(*latest(*line, *MARKS, *account, *flags))
    assert (done.code, done.out) == (4 if name == "no mark of order" else 2, "")
    assert said in done.err
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_types_are_for_tables_of_csv(tmp_path, sordino, told):
    done = told(
        "a,1\n",
        "above",
        "-",
        "--threshold",
        1,
        "-c",
        1,
        "--epsilon",
        1,
        "--sensitivity",
        1,
        "--type",
        "a=integer",
    )
    assert (done.code, done.out) == (2, "")
    assert "--type is for a table" in done.err
    done = told(
        "x\n1\n",
        "randomize",
        "-",
        "--column",
        "x",
        "--lower",
        0,
        "--upper",
        1,
        "--epsilon",
        1,
        "--encoding",
        "utf-16",
    )
    assert (done.code, done.out) == (2, "")
    assert "The encoding of standard input" in done.err
    done = told(
        "x\n1\n",
        "randomize",
        "-",
        "--column",
        "x",
        "--lower",
        0,
        "--upper",
        1,
        "--epsilon",
        1,
        "--type",
        "y=double",
    )
    assert (done.code, done.out) == (2, "")
    assert "columns of standard input" in done.err
    del tmp_path, sordino


def test_reports_of_numbers_in_other_marks(told):
    done = told(
        "x\n1.234,5\n1.5\n\n",
        *("randomize", "-", "--column", "x", "--lower", 0, "--upper", 2000, "--epsilon", 20),
        *("--no-ledger", "--yes-i-mean-it"),
        *("--delimiter", ";", "--decimal", ",", "--thousands", "."),
    )
    first, second, third = (float(line) for line in done.out.splitlines()[1:])
    assert abs(first - 1234.5) < 200
    assert abs(second - 1000) < 200
    assert abs(third - 1000) < 200


@pytest.mark.parametrize("types", [(), TYPES], ids=["undeclared", "declared"])
@pytest.mark.sample(4)
def test_nothing_about_a_row_reaches_anybody(tmp_path, sordino, types):
    """Rows that fit and rows that do not: the same words and the same exit code, and figures apart by one row."""
    said = set()
    for more in (
        ["A;1,5;1.1.2024;7"],
        ["A;x;y;z"],
        ["A;" + "9" * 400 + ";99.99.9999;1e5"],
        ['A;"1,5', "B"],
        ["A;nan;NULL;-"],
    ):
        path = written(tmp_path, more=more)
        done = sordino(
            *(
                "count",
                path,
                "--row-is-unit",
                "--no-quiet",
                *MARKS,
                *types,
                *SURE,
                "--where",
                "Kunde = 'Käufer7'",
            ),
            *("--seed", 1, "--synthetic"),
        )
        said.add((done.code, done.err, str(done.json["rows"])))
    assert len(said) == 1


HEADED = ("--row-is-unit", "--no-ledger", *SURE)


@pytest.mark.parametrize("command", ["count", "sum", "init", "ledger create"])
def test_files_whose_lines_end_with_cr_end_alike_with_one_row_more(tmp_path, command, sordino):
    """Twin: the header was the whole file, and whether two of its cells were alike decided the exit code."""
    ended, names = set(), {"count": (), "sum": ("--column", "zz", "--lower", 0, "--cap", 9)}
    for rows in ([], ["1,5"], ["1,5", "2,6"], ["1,5", "1,5"], ["secret,secret"]):
        path = tmp_path / "t.csv"
        path.write_bytes("\r".join(["u,x", *rows, ""]).encode())
        if command in names:
            done = sordino(command, path, *names[command], *HEADED)
        elif command == "init":
            done = sordino("init", path, "--output", tmp_path / "study.toml")
        else:
            made = ("--account", "a", "--epsilon", 1, "--row-is-unit", "--source", path)
            done = sordino("ledger", "create", "--ledger", tmp_path / "l.db", *made)
        ended.add((done.code, done.out, done.err))
    assert len(ended) == 1
    [(code, out, err)] = ended
    assert (code, out) == (4, "")
    assert "must be one line" in err
    assert not (tmp_path / "study.toml").exists()


def test_the_command_can_say_what_python_can(tmp_path, sordino):
    path = tmp_path / "adult.csv"
    path.write_text('secret\r,"\nnote\n"Giliap,1\nHe said "no",2\n5\' 10",3\nx,4,5\n')
    form = ("--skip-lines", 2, "--no-header", "--columns", 't,"x"', "--quote", "none")
    assert round(sordino("count", path, *form, *HEADED).json["rows"][0]["estimate"]) == 3
    assert (
        round(sordino("count", path, *form, "--ragged", *HEADED).json["rows"][0]["estimate"]) == 4
    )
    made = ("--account", "a", "--epsilon", 1, "--unit", "t", "--source", path)
    assert sordino("ledger", "create", "--ledger", tmp_path / "l.db", *made, *form).code == 0
    done = sordino("init", path, "--output", tmp_path / "study.toml", *form, "--ragged")
    assert done.code == 0
    written = (tmp_path / "study.toml").read_text()
    assert all(
        line in written
        for line in ("skip_lines = 2", "ragged = true", 'quote = ""', "header = false")
    )


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (("--no-header",), "--no-header and --columns must be given together"),
        (("--columns", "a,b"), "--no-header and --columns must be given together"),
        (("--columns", '"a', "--no-header"), "names with commas between them"),
        (("--columns", "a,a", "--no-header"), "Name each column once"),
        (("--skip-lines", "-1"), "--skip-lines"),
        (("--quote", "xx"), "quote must be one ASCII character"),
        (("--quote", ","), "quote must be one ASCII character"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, sordino, form, words):
    path = tmp_path / "t.csv"
    path.write_text("u,x\n1,2\n")
    done = sordino("count", path, *HEADED, *form)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
