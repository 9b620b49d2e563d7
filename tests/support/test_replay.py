"""make replay: a format that makes something else of what was recorded is noticed to the byte."""

import json
import shutil

import pytest

from tests.support import replay
from tests.support.formats.samples import FOLDER

pytestmark = pytest.mark.embedded


@pytest.fixture
def replayed(capsys):
    """Replays a folder and returns the exit status and the output."""

    def run(folder, *options):
        status = replay.main([str(folder), *options])
        return status, capsys.readouterr().out

    return run


@pytest.fixture
def folder(tmp_path):
    """The samples of one format, without results."""
    shutil.copytree(FOLDER / "ollama", tmp_path / "ollama")
    return tmp_path


@pytest.mark.long
def test_the_results_that_are_kept_are_those_of_this_version():
    changed = [change.told() for change in replay.changes(FOLDER)]
    assert not changed, 'look at `make replay`; REPLAY="--update" stores the results:\n' + "\n".join(changed[:20])


def test_stored_results_are_found_unchanged(replayed, folder):
    status, output = replayed(folder, "--update")
    assert status == 0
    assert "They are stored." in output
    assert replayed(folder) == (0, "Nothing changed.\n")


def test_every_byte_that_changed_is_shown(replayed, folder):
    replayed(folder, "--update")
    path = folder / "ollama/plain.json"
    path.write_text(path.read_text().replace("Lisbon", "Lisboa"))
    status, output = replayed(folder)
    assert status == 1
    assert "ollama plain answer: openai-chat: from byte " in output
    assert "Lisbo⟦n⟧" in output
    assert "Lisbo⟦a⟧" in output
    assert "plain stream" not in output


def test_samples_that_came_or_went_are_named(replayed, folder):
    replayed(folder, "--update")
    (folder / "ollama/plain.json").rename(folder / "ollama/other.json")
    lines = [change.told() for change in replay.changes(folder)]
    assert "ollama other answer: request: new" in lines
    assert "ollama plain answer: request: gone" in lines


def test_every_door_and_every_way_to_end_is_in_the_results():
    body = {name: json.loads((FOLDER / f"results/{name}.results.json").read_text()) for name in ("openai", "gemini")}
    for shape in ("work", "openai-chat", "openai-responses", "anthropic-messages"):
        assert f"plain answer: {shape}" in body["openai"]
        assert f"error_midway stream: {shape}" in body["gemini"]
    assert body["openai"]["plain answer: openai-chat"].endswith("as it came")
    assert body["openai"]["limited answer: work"].startswith("429 ProviderOverloaded")
    assert "SHA-256" in body["openai"]["large_event stream: anthropic-messages"]


def test_a_folder_that_does_not_exist(replayed, tmp_path):
    with pytest.raises(SystemExit):
        replayed(tmp_path / "nowhere")
