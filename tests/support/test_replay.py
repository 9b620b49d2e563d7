"""manage.py replay_samples: a format that makes something else of what was recorded is noticed to the byte."""

import json
import shutil
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.providers.formats.samples import FOLDER
from tests.support import replay


def replayed(folder, **options):
    output = StringIO()
    call_command("replay_samples", str(folder), stdout=output, **options)
    return output.getvalue()


@pytest.fixture
def folder(tmp_path):
    """The samples of one format, without results."""
    shutil.copytree(FOLDER / "ollama", tmp_path / "ollama")
    return tmp_path


def test_the_results_that_are_kept_are_those_of_this_version():
    changed = [change.told() for change in replay.changes(FOLDER)]
    assert not changed, "look at `manage.py replay_samples`, and keep it with --update:\n" + "\n".join(changed[:20])


def test_what_is_kept_is_found_unchanged(folder):
    assert "are kept" in replayed(folder, update=True)
    assert replayed(folder) == "Nothing changed.\n"


def test_every_byte_that_changed_is_shown(folder):
    replayed(folder, update=True)
    path = folder / "ollama/plain.json"
    path.write_text(path.read_text().replace("Lisbon", "Lisboa"))
    output = StringIO()
    with pytest.raises(CommandError, match="results changed"):
        call_command("replay_samples", str(folder), stdout=output)
    told = output.getvalue()
    assert "ollama plain answer: openai-chat: from byte " in told
    assert "Lisbo⟦n⟧" in told
    assert "Lisbo⟦a⟧" in told
    assert "plain stream" not in told


def test_samples_that_came_or_went_are_told(folder):
    replayed(folder, update=True)
    (folder / "ollama/plain.json").rename(folder / "ollama/other.json")
    told = [change.told() for change in replay.changes(folder)]
    assert "ollama other answer: request: new" in told
    assert "ollama plain answer: request: gone" in told


def test_every_door_and_every_way_to_end_is_in_the_results():
    found = {name: json.loads((FOLDER / f"results/{name}.results.json").read_text()) for name in ("openai", "gemini")}
    for shape in ("work", "openai-chat", "openai-responses", "anthropic-messages"):
        assert f"plain answer: {shape}" in found["openai"]
        assert f"error_midway stream: {shape}" in found["gemini"]
    assert found["openai"]["plain answer: openai-chat"].endswith("as it came")
    assert found["openai"]["limited answer: work"].startswith("429 ProviderOverloaded")
    assert "SHA-256" in found["openai"]["large_event stream: anthropic-messages"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CommandError, match="no samples"):
        replayed(tmp_path / "nowhere")
