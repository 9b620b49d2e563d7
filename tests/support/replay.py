"""`make replay`: what formats and doors make of recorded requests and of providers' bytes, and what changed.

It asks no provider. The results are stored beside the samples, one file for each format, one line for each result.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway_project.errors import GatewayError
from gateway_project.work.doors import ENDPOINTS
from providers.formats import FORMATS, WorkRequest
from tests.support.recorded_samples import Sample, request, streams, whole

SAMPLES = Path(__file__).parents[1] / "providers/formats/samples"
RESULTS = "results"
LONGEST = 20_000  # of a result that is kept as it is; of a longer one its hash is
SHOWN = 30  # bytes around a change
CHATS = {endpoint.dialect.name: endpoint.dialect for endpoint in ENDPOINTS.values() if endpoint.operation == "chat"}


@dataclass(frozen=True, slots=True)
class Change:
    """One result that is not what it was; None: there was none, or there is none any more."""

    format: str
    name: str
    before: str | None
    after: str | None

    def told(self) -> str:
        """The change for a person: where it begins, and every byte that went or came."""
        title = f"{self.format} {self.name}"
        if self.before is None or self.after is None:
            return f"{title}: {'new' if self.before is None else 'gone'}"
        before, after = self.before.encode(), self.after.encode()
        begin = _common(before, after)
        end = _common(before[begin:][::-1], after[begin:][::-1])
        lead = before[max(begin - SHOWN, 0) : begin]
        tail = before[len(before) - end : len(before) - end + SHOWN]
        lines = [f"{title}: from byte {begin} on"]
        for sign, text in (("-", before), ("+", after)):
            shown = lead + "⟦".encode() + text[begin : len(text) - end] + "⟧".encode() + tail
            lines.append(f"  {sign} {shown.decode(errors='replace')}")
        return "\n".join(lines)


def changes(folder: Path) -> Iterator[Change]:
    """Every result of the samples in a folder that is not the one that is kept."""
    for format_name in FORMATS:
        rest, row = read(folder, format_name), results(folder, format_name)
        for name in sorted(rest.keys() | row.keys()):
            if rest.get(name) != row.get(name):
                yield Change(format_name, name, rest.get(name), row.get(name))


def results(folder: Path, format_name: str) -> dict[str, str]:
    """What is made of each sample of a format: the request, and the answer at each door, by name."""
    values = {}
    for sample in [*whole(folder, format_name), *streams(folder, format_name)]:
        kind = "stream" if sample.streamed else "answer"
        values[f"{sample.name} {kind}: request"] = result_or_error(lambda sample=sample: _request(sample))
        if "refused" not in sample.about:
            for shape, work in _doors(sample):
                values[f"{sample.name} {kind}: {shape}"] = result_or_error(
                    lambda work=work, sample=sample: _answer(sample, work)
                )
    return values


def read(folder: Path, format_name: str) -> dict[str, str]:
    """The results that are kept."""
    path = _path(folder, format_name)
    return json.loads(path.read_text()) if path.exists() else {}


def keep(folder: Path) -> None:
    """Keep what is made now."""
    for format_name in FORMATS:
        path = _path(folder, format_name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(results(folder, format_name), ensure_ascii=False, indent=0, sort_keys=True) + "\n")


def _path(folder: Path, format_name: str) -> Path:
    return folder / RESULTS / f"{format_name}.results.json"


def _doors(sample: Sample) -> Iterator[tuple[str, WorkRequest]]:
    """The sample's client on /work, and of a chat a client of each door."""
    work = sample.work
    yield "work", work
    if sample.operation == "chat":
        for name, dialect in CHATS.items():
            yield name, request(sample.about["work"], dialect=dialect, door=True)


def _request(sample: Sample) -> str:
    outgoing = sample.format.request(sample.work, sample.model)
    added = f" +{outgoing.added}" if outgoing.added else ""
    return f"{outgoing.path} {json.dumps(outgoing.headers)} {list(outgoing.dropped)}{added} {outgoing.body.decode()}"


def _answer(sample: Sample, work: WorkRequest) -> str:
    """What the client gets, and what was read in it; of a refusal what it is told."""
    if sample.streamed:
        return _stream(sample, work)
    if (status := sample.about["status"]) != 200:
        raise sample.format.refusal(status, sample.body)
    answer = sample.format.answer_from_response(work, sample.about["headers"], sample.body)
    shown = "as it came" if answer.body == sample.body else answer.body.decode()
    dropped = f" {list(answer.dropped)}" if answer.dropped else ""
    return f"{answer.finish_reason} {answer.provider_finish_reason} {answer.usage}{dropped} {shown}"


def _stream(sample: Sample, work: WorkRequest) -> str:
    reader = sample.format.reader(work)
    written = reader.feed(sample.body)
    if not reader.done and reader.error is None:
        written += reader.end(is_complete=False)
    if reader.error is not None and work.via_door:
        written += reader.end_with_error(reader.error)
    shown = "as it came" if written == sample.body else written.decode(errors="replace")
    how = f"done={reader.done} error={reader.error} {reader.finish_reason} {reader.provider_finish_reason}"
    return f"{how} {reader.usage} {shown}"


def result_or_error(make: Callable[[], str]) -> str:
    try:
        row = make()
    except GatewayError as error:
        row = f"{error.code} {error.exception} {error.headers} {error.reason} {error.field} {error.message}"
    if len(row) <= LONGEST:
        return row
    return f"{row[:SHOWN]}… {len(row)} characters, SHA-256 {hashlib.sha256(row.encode()).hexdigest()}"


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning are the same."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(at for at in range(most) if one[at] != other[at])


def main(arguments: list[str] | None = None) -> int:
    """Print every byte that changed; exit status 1 if there is a change and it is not stored."""
    parser = argparse.ArgumentParser(prog="make replay", description="Replays recorded requests and answers.")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLES, help="the samples")
    parser.add_argument("--update", action="store_true", help="store the new results")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"there are no samples in {options.folder}")
    differences = list(changes(options.folder))
    for difference in differences:
        print(difference.told())
    if options.update:
        keep(options.folder)
    print(_summary(len(differences), options.update))
    return 1 if differences and not options.update else 0


def _summary(count: int, stored: bool) -> str:
    if not count:
        return "Nothing changed."
    return f"Changed results: {count}. " + (
        "They are stored." if stored else 'make replay REPLAY="--update" stores them.'
    )


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    django.setup()
    sys.exit(main())
