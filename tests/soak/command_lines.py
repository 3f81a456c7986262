"""Random command lines: one that should be answered, or one with mistakes, or anything that the commands know in any order.

The commands are read off the command itself, so a new one is tried at once; `RECIPES` says how an old one is asked so that it answers. A
seed makes one case, always the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

import click

from soak.command_words import DOMAINS, ODD_TEXTS, RIGHT, TABLES, words_of

WEIGHTS = {
    "top": 9, "above": 12, "count": 6, "histogram": 7, "quantile": 9, "sum": 7, "mean": 4, "variance": 4, "randomize": 12, "select": 14,
    "plan": 5, "ledger": 12, "audit": 1,
}  # fmt: skip
STREAMS = {"above", "randomize"}

Group = list[str]


@dataclass
class Case:
    """One run: the command line, what stands on its three streams, around it, and what comes over it."""

    seed: int
    arguments: list[str]
    path: tuple[str, ...]
    intent: str
    stdin: str = "null"
    stdout: str = "file"
    stderr: str = "file"
    environment: dict[str, str] = field(default_factory=dict)
    signal: tuple[str, float] | None = None
    mode: str = "fork"
    nobody: bool = False
    paired: bool = False


@cache
def leaves() -> dict[tuple[str, ...], click.Command]:
    """Return every command that is no group, by the words that name it."""
    from sordino.cli import group

    found: dict[tuple[str, ...], click.Command] = {}

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None:
                    walk(below, (*words, name))
        else:
            found[words] = command

    walk(group, ())
    return found


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command."""
    return [param for param in command.params if isinstance(param, click.Option)]


def _options(rng: random.Random, **named: str | None) -> list[Group]:
    """Return options by their names; None for a flag."""
    return [[name] if value is None else [name, value] for name, value in
            (("-" + key if len(key) == 1 else "--" + key.replace("_", "-"), value) for key, value in named.items())]  # fmt: skip


def _unit(rng: random.Random, *, rows: bool = False) -> list[Group]:
    if rng.random() < 0.4:
        return [["--row-is-unit"]]
    return [
        ["--user", "user"],
        *([["--max-rows", rng.choice(("1", "2", "5"))]] if rows or rng.random() < 0.2 else []),
    ]


def _domain(rng: random.Random) -> list[Group]:
    kind = rng.random()
    if kind < 0.6:
        name = rng.choice(DOMAINS)
        return [
            ["--domain", name],
            *([["--domain-column", "name"]] if name != "d.parquet" or rng.random() < 0.5 else []),
        ]
    if kind < 0.75:
        if rng.random() < 0.5:
            return [["--domain-sql", "SELECT name FROM 'd.csv'"], ["--domain-sql-file", "d.csv"]]
        return [["--domain-sql", rng.choice(RIGHT["domain_sql"])]]
    return (
        [["--domain-range", rng.choice(RIGHT["domain_range"])]]
        if kind < 0.85
        else [["--assume-public"]]
    )


def _epsilon(rng: random.Random) -> Group:
    return ["--epsilon", rng.choice(("0.1", "0.5", "1", "2", "3"))]


def _table(rng: random.Random, groups: list[Group]) -> list[Group]:
    """Add what all questions about tables take: a source, a budget, and an account that fits or none."""
    source = rng.choice(TABLES)
    more = [[source], _epsilon(rng)]
    if rng.random() < 0.3:
        more[0] = ["t.csv"]
        account = "each" if ["--row-is-unit"] in groups else rng.choice(("shop", "shop", "poor"))
        more += [["--ledger", "l.db"], ["--account", account]]
    if rng.random() < 0.25:
        more.append(["--where", rng.choice(RIGHT["where"])])
    return groups + more


def _grouped(rng: random.Random) -> list[Group]:
    return (
        []
        if rng.random() < 0.7
        else [["--by", "item"], ["--domain", "d.csv"], ["--domain-column", "name"]]
    )


def _top(rng: random.Random) -> list[Group]:
    return _table(rng, [["--item", "item"], *_unit(rng), *_domain(rng), ["-k", "1"]])


def _above(rng: random.Random) -> list[Group]:
    common = [["--threshold", rng.choice(("1", "3", "8"))], ["-c", rng.choice(("1", "2", "4"))]]
    if rng.random() < 0.5:
        more = (
            [["--ledger", "l.db"], ["--account", "pipe"], ["--adjacency", "replace-one"]]
            if rng.random() < 0.3
            else []
        )
        return [["-"], *common, _epsilon(rng), ["--sensitivity", "1"], *more]
    return _table(rng, [["--item", "item"], *_unit(rng), *_domain(rng), *common])


def _count(rng: random.Random) -> list[Group]:
    return _table(rng, _unit(rng, rows=True) + ([["--units"]] if rng.random() < 0.3 else []))


def _histogram(rng: random.Random) -> list[Group]:
    return _table(rng, [["--item", "item"], *_unit(rng, rows=True), *_domain(rng)])


def _quantile(rng: random.Random) -> list[Group]:
    chosen = [["--column", "price"], ["--q", rng.choice(RIGHT["q"])], ["--cap", "1000"]]
    return _table(rng, chosen + _unit(rng, rows=True) + _grouped(rng))


def _sum(rng: random.Random) -> list[Group]:
    return _table(
        rng,
        [
            ["--column", "price"],
            ["--cap", "1000"],
            ["--lower", "0"],
            *_unit(rng, rows=True),
            *_grouped(rng),
        ],
    )


def _randomize(rng: random.Random) -> list[Group]:
    chosen = [["--column", "price"], ["--lower", "0"], ["--upper", "100"], _epsilon(rng)]
    unit = [] if rng.random() < 0.5 else [["--user", "user"], ["--max-rows", "2"]]
    if rng.random() < 0.5:
        more = (
            [["--ledger", "l.db"], ["--account", "pipe"]] if rng.random() < 0.3 and not unit else []
        )
        return [["-"], *chosen, *unit, *more]
    if rng.random() < 0.3:
        return [["t.csv"], *chosen, ["--ledger", "l.db"], ["--account", "rows"]]
    return [[rng.choice(TABLES[:-4])], *chosen, *unit]


def _select(rng: random.Random) -> list[Group]:
    paid = [["--ledger", "l.db"], ["--account", "families"]] if rng.random() < 0.3 else []
    if rng.random() < 0.5:
        counts = [["--statistic", "tdt"], ["--b", "b"], ["--c", "c"], ["--families", "80"]]
        label = [["--snp", "snp"]] if rng.random() < 0.5 else []
        # Few lines have a budget that finds the best marker.
        forced = [["--force"]] if rng.random() < 0.7 else []
        if rng.random() < 0.3:
            return [
                ["m.tdt"],
                *(each for each in counts if each[0] not in {"--b", "--c"}),
                *forced,
                _epsilon(rng),
                *paid,
            ]
        return [["m.csv"], *counts, *label, *forced, _epsilon(rng), *paid]
    label = [["--label", "label"]] if rng.random() < 0.5 else []
    paid += [["--adjacency", "replace-one"]] if paid else []
    return [
        [rng.choice(("s.csv", "s.csv", "s2.csv", "refused.csv"))],
        ["--score", "score"],
        ["--sensitivity", "1"],
        *label,
        _epsilon(rng),
        *paid,
    ]


def _accuracy(rng: random.Random) -> list[Group]:
    which = rng.choice(
        (
            "sparse-vector",
            "adaptive-sparse-vector",
            "noisy-top-k",
            "exponential",
            "permute-and-flip",
            "hybrid-top-k",
        )
    )
    needed = {
        "sparse-vector": [["--threshold", "5"], ["-c", "2"]],
        "adaptive-sparse-vector": [["--threshold", "5"], ["--at-least", "2"]],
        "noisy-top-k": [["-k", "2"]],
        "hybrid-top-k": [["-k", "2"], ["--threshold", "3"]],
    }.get(which, [])
    asked = ["--alpha", "5"] if rng.random() < 0.5 else ["--beta", "0.1"]
    return [[which], *needed, asked, ["--answers", "20"], _epsilon(rng), ["--sensitivity", "1"]]


def _new(rng: random.Random) -> list[Group]:
    unit = rng.choice((["--unit", "user"], ["--row-is-unit"]))
    return [
        ["--ledger", rng.choice(("new.db", "l.db"))],
        ["--account", "new"],
        ["--epsilon", "3"],
        unit,
        ["--source", "t.csv"],
    ]


def _of_account(rng: random.Random) -> list[Group]:
    return [["--ledger", "l.db"], ["--account", rng.choice(("shop", "rows", "poor", "rho"))]]


RECIPES = {
    ("top",): _top,
    ("above",): _above,
    ("count",): _count,
    ("histogram",): _histogram,
    ("quantile",): _quantile,
    ("sum",): _sum,
    ("mean",): _sum,
    ("variance",): _sum,
    ("randomize",): _randomize,
    ("select",): _select,
    ("plan", "accuracy"): _accuracy,
    ("plan", "selector"): lambda rng: [["-m", "20"], _epsilon(rng)],
    ("plan", "top-k"): lambda rng: [["-k", "5"], ["-m", "20"], _epsilon(rng)],
    ("ledger", "create"): _new,
    ("ledger", "init"): _new,
    ("ledger", "accounts"): lambda rng: [["--ledger", "l.db"]],
    ("ledger", "grant"): lambda rng: [*_of_account(rng), ["--to", "team"], ["--epsilon", "1"]],
    ("ledger", "backup"): lambda rng: [["--ledger", "l.db"], ["copy.db"]],
    ("ledger", "show"): _of_account,
    ("ledger", "history"): _of_account,
    ("ledger", "verify"): _of_account,
    ("ledger", "export"): _of_account,
    ("audit",): lambda rng: [[rng.choice(RIGHT["name"])]],
}


def make_case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    path = _command(rng)
    command = leaves()[path]
    kind = rng.random()
    intent = "right" if kind < 0.55 else "mistaken" if kind < 0.9 else "wild"
    groups = RECIPES[path](rng) if path in RECIPES and intent != "wild" else _wild(rng, command)
    groups = _more(rng, command, groups)
    for _ in range(rng.choice((1, 1, 1, 2, 3)) if intent == "mistaken" else 0):
        groups = _mistake(rng, command, groups)
    rng.shuffle(groups)
    arguments = [*path, *(word for one in groups for word in one)]
    if intent == "wild" and rng.random() < 0.2:
        rng.shuffle(arguments)
    case = Case(seed, _safe(arguments), path, intent)
    _around(rng, case)
    return case


def _command(rng: random.Random) -> tuple[str, ...]:
    first = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    known = {path[0] for path in leaves()}
    unknown = sorted(known - set(WEIGHTS))  # a command that is new here
    if unknown and rng.random() < 0.1:
        first = rng.choice(unknown)
    return rng.choice([path for path in leaves() if path[0] == first])


def _wild(rng: random.Random, command: click.Command) -> list[Group]:
    """Return any options of a command, most values right."""
    from soak.command_words import value_for

    groups = [
        words_of(rng, option, right=rng.random() < 0.8)
        for option in options_of(command)
        if rng.random() < 0.4 or option.required
    ]
    return groups + [
        [value_for(rng, one, right=rng.random() < 0.8)]
        for one in command.params
        if isinstance(one, click.Argument)
    ]


def _more(rng: random.Random, command: click.Command, groups: list[Group]) -> list[Group]:
    """Add a few options that most lines can take, and now and then any other one with a right value."""
    given = {word for one in groups for word in one}
    known = {name for option in options_of(command) for name in option.opts}
    more: list[Group] = []
    if "--format" in known and rng.random() < 0.5:
        more.append(["--format", rng.choice(("json", "csv", "table"))])
    if (
        "--no-quiet" in {name for option in options_of(command) for name in option.secondary_opts}
        and rng.random() < 0.2
    ):
        more.append(["--no-quiet"])
    if "--seed" in known and "--ledger" not in given and rng.random() < 0.15:
        more += [["--seed", "7"], ["--synthetic"]]
    elif "--no-ledger" in known and "--ledger" not in given and rng.random() < 0.95:
        more.append(["--no-ledger"])
    if "--yes-i-mean-it" in known and rng.random() < 0.2:
        more.append(["--yes-i-mean-it"])
    if rng.random() < 0.3:
        more.append(words_of(rng, rng.choice(options_of(command)), right=True))
    return groups + more


def _mistake(rng: random.Random, command: click.Command, groups: list[Group]) -> list[Group]:
    """Return the line with one more mistake in it."""
    kind, place = rng.randrange(8), rng.randrange(len(groups)) if groups else 0
    options = options_of(command)
    if kind == 0 and groups:
        return groups[:place] + groups[place + 1 :]
    if kind == 1 and groups:
        return [*groups, list(groups[place])]
    if kind in {2, 3}:
        return [*groups, words_of(rng, rng.choice(options), right=False)]
    if kind == 4 and groups and len(groups[place]) > 1:
        option = next((one for one in options if groups[place][0] in one.opts), None)
        if option is not None:
            groups[place] = words_of(rng, option, right=False)
        return groups
    if kind == 5 and groups and len(groups[place]) == 1:
        argument = next((one for one in command.params if isinstance(one, click.Argument)), None)
        if argument is not None and not groups[place][0].startswith("--"):
            from soak.command_words import value_for

            groups[place] = [value_for(rng, argument, right=False)]
        return groups
    if kind == 6:
        return [*groups, [rng.choice((*ODD_TEXTS, "--frobnicate", "-Q", "--epsilon=", "--k"))]]
    return [*groups, words_of(rng, rng.choice(options), right=True)]


def _safe(arguments: list[str]) -> list[str]:
    """Leave out what would only take long, or would run or write something else than what stands in `command_words`."""
    if "audit" in arguments[:1]:
        words = [word for word in arguments if word != "--all"]
        for place, word in enumerate(words):
            if (
                word.startswith("--command")
                and "=" not in word
                and place + 1 < len(words)
                and words[place + 1] not in _programs()
            ):
                words[place + 1] = "true {}"
            elif word.startswith("--command="):
                words[place] = "--command=true {}"
        return words
    return arguments


@cache
def _programs() -> frozenset[str]:
    from soak.command_words import ODD

    return frozenset((*RIGHT["command"], *ODD["command"]))


def _around(rng: random.Random, case: Case) -> None:
    """Choose the streams, the environment, and what comes over the run."""
    if "-" in case.arguments or rng.random() < 0.02:
        answers = ("a.txt", "a.txt", "a.txt", "arefused.txt", "along.txt")
        tables = ("t.csv", "t.csv", "messy.csv", "cut.csv", "long.csv", "crlf.csv", "header.csv")
        right = tables if case.path == ("randomize",) else answers
        odd = ("null", "closed", "empty.csv", "noise.csv", "t.parquet", *answers, *tables)
        case.stdin = rng.choice(right if rng.random() < 0.9 else odd)
    kind = rng.random()
    if kind < 0.06:
        case.stdout = rng.choice(("full", "closed", "gone", "early"))
    elif kind < 0.09:
        case.stderr = rng.choice(("full", "closed", "gone"))
    elif kind < 0.11:
        case.stdout = case.stderr = "terminal"
    if rng.random() < 0.1:
        case.environment = rng.choice(
            ({"LC_ALL": "C"}, {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"COLUMNS": "3"}, {"COLUMNS": "0"},
             {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"TERM": "dumb"},
             {"HOME": "folder"}, {"PYTHONWARNINGS": "error"}, {"TMPDIR": "none"})
        )  # fmt: skip
    kind = rng.random()
    if kind < 0.03:
        case.signal = rng.choice(("SIGINT", "SIGTERM", "SIGHUP")), rng.random() ** 2 * 0.3
    elif kind < 0.045 and case.path != ("audit",):
        case.mode = "process"
    elif kind < 0.07:
        case.nobody = True
    plain = (
        case.signal is None
        and (case.stdout, case.stderr) == ("file", "file")
        and case.mode == "fork"
    )
    case.paired = plain and rng.random() < 0.15
