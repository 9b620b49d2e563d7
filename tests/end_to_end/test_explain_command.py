"""The command explain: it says what would become of a request, and what is wrong with its words."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from telemetry.models import LogEntry

pytestmark = pytest.mark.either_store


class TestCommand:
    def run(self, *words):
        output = io.StringIO()
        call_command("explain", *words, stdout=output)
        return output.getvalue()

    def test_it_says_what_would_happen(self, world, provider, settings, tmp_path):
        settings.GATEWAY_JOURNAL_DIR = tmp_path
        issued = world.new_key()
        text = self.run(world.user.username, world.model, "--key", issued.key.name)
        assert text.startswith("The request would be served.\n")
        assert f"with key {issued.key.name}" in text
        assert provider.seen == []
        entry = LogEntry.objects.filter(message__contains=f"with key {issued.key.name} for").get()
        assert entry.message.endswith("explained: it would be served.")
        far = world.new_key(networks=["192.0.2.0/24"]).key.name
        text = self.run(world.user.username, world.model, "--key", far, "--address", "127.0.0.1")
        assert "403 PermissionDenied" in text
        document = json.loads(self.run(world.user.username, "nothing", "--json"))
        assert document["error"]["exception"] in ("RuleDenied", "ProviderNotSelected")

    def test_what_is_wrong_is_said(self, world, provider, settings, tmp_path):
        settings.GATEWAY_JOURNAL_DIR = tmp_path
        words = {("nobody-of-this-name", "m"): "No user named", (world.user.username, "m", "--path", "/x"): "at /x"}
        words[world.user.username, "m", "--key", "none"] = "^User .* has no key named none"
        words[world.user.username, "m", "--address", "here"] = "argument --address: 'here' is not an IP"
        words[world.user.username, "m", "--body", str(tmp_path / "none")] = "cannot be read"
        words["\udcff", "m"] = "No user named"
        words[world.user.username, "\udcff"] = words[world.user.username, "m", "--key", "\udcff"] = "is not UTF-8"
        for name, text in {"deep": "[" * 100_000, "half": '{"model": "\\ud800"}'}.items():
            (tmp_path / name).write_text(text)
        words[world.user.username, "--body", str(tmp_path / "deep")] = "nested more than"
        words[world.user.username, "--body", str(tmp_path / "half")] = "half a surrogate pair"
        for arguments, text in words.items():
            with pytest.raises(CommandError, match=text):
                self.run(*arguments)
