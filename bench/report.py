"""From runs to rows, targets and the text that is printed."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.measure import Run
from bench.scenarios import Case


@dataclass
class Row:
    """One case over all its rounds: medians, of errors the sum and of memory the most."""

    name: str
    label: str
    group: str
    cpu_ms: float
    rps: float
    p50: float
    p99: float
    pss_mb: float
    errors: int
    chunk_us: float | None = None
    chunks_per_second: float | None = None
    first_p50: float | None = None
    first_p99: float | None = None
    postgresql_ms: float | None = None
    redis_ms: float | None = None
    peak_in_flight: int = 0  # at the stand-in; 0 or 1 where it answers at once

    @property
    def rps_per_core(self) -> float:
        """What a fully used core would serve."""
        return 1000 / self.cpu_ms if self.cpu_ms else 0.0


Rows = dict[str, Row]


def row(case: Case, runs: list[Run], peak: int) -> Row:
    """The row of a case."""

    def middle(value: Callable[[Run], float]) -> float:
        return median(map(value, runs))

    made = Row(
        name=case.name,
        label=case.label,
        group=case.group,
        cpu_ms=middle(lambda run: run.cpu_ms),
        rps=middle(lambda run: run.results["rps"]),
        p50=middle(lambda run: run.results["p50"]),
        p99=middle(lambda run: run.results["p99"]),
        pss_mb=max(run.pss_mb for run in runs),
        errors=sum(run.results["errors"] for run in runs),
        peak_in_flight=peak,
        postgresql_ms=store_ms(runs, "postgresql"),
        redis_ms=store_ms(runs, "redis"),
    )
    if case.options.get("chunks"):
        made.chunk_us = middle(lambda run: run.cpu_us_per_chunk)
        made.chunks_per_second = middle(lambda run: run.results["chunks"] / run.results["seconds"])
        made.first_p50 = middle(lambda run: run.results["firstChunkP50"])
        made.first_p99 = middle(lambda run: run.results["firstChunkP99"])
    return made


def store_ms(runs: list[Run], store: str) -> float | None:
    """The median over the runs; None where the store was not measured."""
    values = [value for run in runs if (value := run.store_ms(store)) is not None]
    return median(values) if values else None


# --- Targets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A promise about the rows; `needs` are those without which it cannot be judged."""

    text: str
    needs: tuple[str, ...]
    value: Callable[..., float]
    limit: float
    unit: str = ""
    at_least: bool = False

    def judge(self, rows: Rows) -> dict[str, Any] | None:
        """The verdict, or None if a row is missing."""
        if not all(name in rows for name in self.needs):
            return None
        value = self.value(*(rows[name] for name in self.needs))
        ok = value >= self.limit if self.at_least else value <= self.limit
        return {"text": self.text, "value": value, "limit": self.limit, "unit": self.unit, "ok": ok}


def cost_ratio(mine: Row, other: Row) -> float:
    """How many times the CPU of the other row."""
    return mine.cpu_ms / other.cpu_ms


def p50_ratio(mine: Row, other: Row) -> float:
    """How many times the median latency of the other row."""
    return mine.p50 / other.p50


def p99_ratio(mine: Row, other: Row) -> float:
    """How many times the 99th percentile of the other row's latency."""
    return mine.p99 / other.p99


def chunk_ratio(mine: Row, other: Row) -> float:
    """How many times the CPU for a chunk of the other row."""
    return mine.chunk_us / other.chunk_us


TARGETS = (
    Target("a miss costs at most 0.80 x the bare pass-through", ("miss", "pass"), cost_ratio, 0.8, "x"),
    Target("a hit costs at most 1.7 x the empty view", ("hit", "hello"), cost_ratio, 1.7, "x"),
    Target("an alias, miss: at most 1.1 x the plain model", ("alias-miss", "miss"), cost_ratio, 1.1, "x"),
    Target("an alias, hit: at most 1.1 x the plain model", ("alias-hit", "hit"), cost_ratio, 1.1, "x"),
    Target("a restricted key, miss: at most 1.02 x a plain key", ("restricted", "plain"), cost_ratio, 1.02, "x"),
    Target("a tree of groups, miss: at most 1.02 x a plain key", ("group", "plain"), cost_ratio, 1.02, "x"),
    Target("a token of an issuer, miss: at most 1.02 x a plain key", ("issuer", "plain"), cost_ratio, 1.02, "x"),
    Target("one connection, miss: CPU at most 1.0 x the bare", ("miss-1", "pass-1"), cost_ratio, 1.0, "x"),
    Target("one connection, miss: p50 at most 1.1 x the bare", ("miss-1", "pass-1"), p50_ratio, 1.1, "x"),
    Target("one connection, miss: p99 at most 2 x the bare", ("miss-1", "pass-1"), p99_ratio, 2, "x"),
    Target("one connection, hit: p50 at most 2 x the empty view", ("hit-1", "hello-1"), p50_ratio, 2, "x"),
    Target("a chunk of a stream costs at most 0.94 x the bare", ("stream", "bare-stream"), chunk_ratio, 0.94, "x"),
    Target("a chunk of a long stream costs at most 0.94 x the bare", ("long", "bare-long"), chunk_ratio, 0.94, "x"),
    Target(
        "the first chunk comes at most 3 ms later than straight from the provider",
        ("first", "first-direct"),
        lambda mine, direct: mine.first_p50 - direct.first_p50,
        3,
        "ms",
    ),
    Target("1,000 slow requests: no error", ("slow",), lambda row: row.errors, 0),
    Target("1,000 slow requests: under 160 MB", ("slow",), lambda row: row.pss_mb, 160, "MB"),
    Target("1,000 slow requests: at least 880 a second", ("slow",), lambda row: row.rps, 880, "/s", True),
    Target("100,000 keys, 10,000 rules, miss: within 10 %", ("miss-100k", "miss-10"), cost_ratio, 1.1, "x"),
    Target("100,000 keys, 10,000 rules, hit: within 10 %", ("hit-100k", "hit-10"), cost_ratio, 1.1, "x"),
)


def verdicts(rows: Rows) -> list[dict[str, Any]]:
    """Every target that these rows can judge."""
    return [verdict for target in TARGETS if (verdict := target.judge(rows))]


# --- Text ---------------------------------------------------------------------------------------------------


def ratio(mine: Row, other: Row | None) -> str:
    """The cost in multiples of another row's, if that was measured."""
    return f"{cost_ratio(mine, other):.2f}" if other else "-"


def optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def table(head: list[str], lines: Iterable[list[str]]) -> str:
    """Columns aligned, the first to the left."""
    lines = [head, *lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def request_table(rows: Rows) -> str:
    """The rows that are not streams."""
    head = [
        "",
        "CPU ms",
        "req/s/core",
        "req/s",
        "p50 ms",
        "p99 ms",
        "PSS MB",
        "PG ms",
        "Redis ms",
        "x view",
        "x pass",
        "in flight",
    ]
    return table(
        head,
        (
            [
                row.label,
                f"{row.cpu_ms:.3f}",
                f"{row.rps_per_core:,.0f}",
                f"{row.rps:,.0f}",
                f"{row.p50:.2f}",
                f"{row.p99:.1f}",
                f"{row.pss_mb:.0f}",
                optional(row.postgresql_ms),
                optional(row.redis_ms),
                ratio(row, rows.get("hello-1" if row.group == "lone" else "hello")),
                ratio(row, rows.get("pass-1" if row.group == "lone" else "pass")),
                str(row.peak_in_flight),
            ]
            for row in rows.values()
            if row.chunk_us is None
        ),
    )


def stream_table(rows: Rows) -> str:
    """The rows that are streams."""
    head = ["", "CPU us/chunk", "x bare", "chunks/s", "first p50 ms", "first p99 ms", "added ms", "PSS MB"]
    direct = rows.get("first-direct")
    bare = {row.group: row for name, row in rows.items() if "bare" in name}
    return table(
        head,
        (
            [
                row.label,
                f"{row.chunk_us:.1f}",
                ratio(row, bare.get(row.group)),
                f"{row.chunks_per_second:,.0f}",
                f"{row.first_p50:.1f}",
                f"{row.first_p99:.1f}",
                f"{row.first_p50 - direct.first_p50:.1f}" if direct and row.group == "first" else "-",
                f"{row.pss_mb:.0f}",
            ]
            for row in rows.values()
            if row.chunk_us is not None
        ),
    )


def text(rows: Rows) -> str:
    """The whole report."""
    parts = []
    if any(row.chunk_us is None for row in rows.values()):
        parts.append(request_table(rows))
    if any(row.chunk_us is not None for row in rows.values()):
        parts.append(stream_table(rows))
    judged = [
        f"{'ok   ' if verdict['ok'] else 'SHORT'}  {verdict['text']}: {verdict['value']:.2f} {verdict['unit']}"
        for verdict in verdicts(rows)
    ]
    return "\n\n".join([*parts, "\n".join(judged)] if judged else parts)


def document(rows: Rows) -> dict[str, Any]:
    """The report for machines."""
    return {"rows": {name: asdict(row) for name, row in rows.items()}, "targets": verdicts(rows)}
