"""The table of public prices: loaded once, brought up to date again and again, and never over an edited price."""

import json
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from importlib.metadata import version
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from gateway_project.errors import ValidationError
from providers.formats import Usage
from providers.models import ModelPrice
from providers.pricing import public_prices
from providers.pricing.prices import Offer, PriceBook, cost_of
from providers.pricing.public_prices import BUNDLED, sync_prices
from providers.services import change_price, create_provider, end_price, set_price
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
PLACES = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "mistral": "api.mistral.ai",
    "cohere": "api.cohere.com",
    "groq": "api.groq.com",
    "together": "api.together.xyz",
}


@pytest.fixture
def table(tmp_path):
    """Writes a table of prices: table({"model": "m", "input": "1", "output": "2"}, …) -> its path."""

    def write(*prices, **about):
        path = tmp_path / "prices.json"
        path.write_text(json.dumps({"currency": "USD", "prices": prices} | about))
        return path

    return write


def entry(model="m", amount="1", **more):
    return {"model": model, "input": amount, "output": "2"} | more


def book():
    return PriceBook(Offer(row.price, row.model, row.provider_id, row.host) for row in ModelPrice.objects.current())


class TestLoading:
    def test_again_it_changes_nothing(self, table):
        path = table(entry(), entry(host="api.example.org"), entry(aboveInputTokens=200_000, amount="3"))
        assert sync_prices(path).counts == {"new": 3, "changed": 0, "unchanged": 0, "kept": 0}
        before = list(ModelPrice.objects.values())
        assert sync_prices(path).counts["unchanged"] == 3
        assert list(ModelPrice.objects.values()) == before
        assert {row["source"] for row in before} == {"synced"}

    def test_a_price_that_changed_is_a_row_more(self, table):
        sync_prices(table(entry(), entry("other")))
        counted = sync_prices(table(entry(amount="1.5"), entry("new"))).counts
        assert counted == {"new": 1, "changed": 1, "unchanged": 0, "kept": 0}
        rows = ModelPrice.objects.filter(model="m").order_by("id")
        assert [(row.input, row.valid_until is None) for row in rows] == [(1, False), (Decimal("1.5"), True)]
        assert rows[0].valid_until == rows[1].valid_from
        assert ModelPrice.objects.open().filter(model="other").exists()

    def test_an_edited_price_is_kept(self, table):
        sync_prices(table(entry()))
        change_price(ModelPrice.objects.get(), input=Decimal(9))
        assert sync_prices(table(entry(amount="5"))).counts["kept"] == 1
        assert ModelPrice.objects.open().get().input == 9
        end_price(ModelPrice.objects.open().get())
        assert sync_prices(table(entry(amount="5"))).counts["new"] == 1

    def test_a_providers_own_prices_are_none_of_its_business(self, table):
        provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
        set_price(provider=provider, model="m", currency="EUR", input=Decimal(9), output=Decimal(9))
        assert sync_prices(table(entry())).counts["new"] == 1

    def test_of_prices_with_a_day_the_latest_that_has_come_holds(self, table):
        today, day = timezone.now().date(), timedelta(days=1)
        path = table(
            entry(amount="1"),
            entry(amount="8", aboveInputTokens=10),
            entry(amount="2", **{"from": f"{today - day}"}),
            entry(amount="3", **{"from": f"{today + day * 2}"}),
        )
        sync_prices(path)
        assert [(row.input, row.above_input_tokens) for row in ModelPrice.objects.all()] == [(2, 0)]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"model": "m"},
            entry(amount="-1"),
            entry(amount="free"),
            entry(amount="0.0000001"),
            entry("M"),
            entry(colour="red"),
            entry(**{"from": "tomorrow"}),
            entry(aboveInputTokens=-1),
            entry(host=7, model=None),
            "m",
        ],
    )
    def test_a_wrong_entry_is_named_and_nothing_is_loaded(self, table, wrong):
        with pytest.raises(ValidationError, match="price 2"):
            sync_prices(table(entry(), wrong))
        assert not ModelPrice.objects.exists()

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"model": "m", "output": 1}, "input: This field cannot be null."),
            (entry(cacheRead="-1"), "cacheRead: Ensure this value is greater than or equal to 0."),
            (entry(amount="free"), "input: must be a number or a text with one."),
            (entry(aboveInputTokens=float("inf")), "cannot convert float infinity to integer."),
            ("m", "must be an object with model, input and output."),
        ],
    )
    def test_what_is_wrong_is_said_in_the_words_of_the_file(self, table, wrong, told):
        path = table(wrong)
        with pytest.raises(CommandError) as refused:
            call_command("sync_prices", file=path)
        assert str(refused.value) == f"{path}, price 1: {told}"

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"currency": "USD", "prices": 5}', "\udcff"])
    def test_what_is_no_table_is_said_to_be_none(self, tmp_path, text):
        path = tmp_path / "prices.json"
        path.write_text(text, errors="surrogateescape")
        with pytest.raises(CommandError, match="not a table") as refused:
            call_command("sync_prices", file=path)
        assert "Error(" not in str(refused.value)

    def test_a_file_that_is_not_there_is_said_not_to_be(self, tmp_path):
        with pytest.raises(CommandError, match="nowhere.json cannot be read: No such file or directory.$"):
            call_command("sync_prices", file=tmp_path / "nowhere.json")


class TestBundled:
    def test_it_names_its_source_and_its_day(self):
        about = json.loads(BUNDLED.read_text())
        assert about["source"].startswith("genai-prices ")
        assert about["date"] > "2026"
        assert len(about["prices"]) > 2000

    @pytest.mark.long
    def test_the_command_loads_it_and_says_so(self, capsys):
        call_command("sync_prices")
        loaded = ModelPrice.objects.filter(source="bundled").count()
        assert loaded > 1000
        assert f"{loaded} new, 0 changed" in capsys.readouterr().out
        call_command("sync_prices")
        assert f"0 new, 0 changed, {loaded} unchanged" in capsys.readouterr().out

    @pytest.mark.long
    def test_well_known_models_have_their_price_and_others_have_none(self):
        sync_prices()
        prices = book()
        usage = Usage(input=1_000_000, output=1_000_000)
        cost = {
            (host, model): found and cost_of(usage, found)
            for host, model in [
                ("api.openai.com", "gpt-4o-mini-2024-07-18"),
                ("proxy.example.org", "gpt-4o-mini"),
                ("generativelanguage.googleapis.com", "gemini-2.5-flash"),
                ("api.groq.com", "llama-3.3-70b-versatile"),
                ("localhost", "llama-3.3-70b-versatile"),
                ("localhost", "demo"),
            ]
            for found in [prices.price(1, host, model, 0)]
        }
        assert list(cost.values()) == [
            Decimal("0.75"), Decimal("0.75"), Decimal("2.8"), Decimal("1.38"), None, None,
        ]  # fmt: skip

    @pytest.mark.long
    def test_it_says_what_its_source_says(self):
        """Of some providers, every model by its own name."""
        package = pytest.importorskip("genai_prices.data_snapshot")
        usages = pytest.importorskip("genai_prices.types")
        if not json.loads(BUNDLED.read_text())["source"].startswith(f"genai-prices {version('genai-prices')},"):
            pytest.skip("the installed package is newer than the table")
        sync_prices()
        prices, differing, seen = book(), [], Counter()
        for provider in package.get_snapshot().providers:
            for model in provider.models if provider.id in PLACES else ():
                theirs = model.get_prices(timezone.now())
                if theirs.input_mtok is None or theirs.output_mtok is None or " " in model.id:
                    continue
                said = theirs.calc_price(
                    usages.Usage(input_tokens=1000, cache_read_tokens=100, cache_write_tokens=200, output_tokens=300)
                )["total_price"]
                ours = prices.price(1, PLACES[provider.id], model.id, 0)
                seen[provider.id] += 1
                if ours is None or abs(cost_of(Usage(700, 100, 200, 300), ours) - said) > Decimal("1e-9"):
                    differing.append((provider.id, model.id, said))
        assert differing == []
        assert min(seen.values()) > 5


def test_the_command_leaves_one_entry_with_counts_if_it_changes_anything(table):
    path = table({"model": "a", "input": "1", "output": "2"}, {"model": "b", "input": "1", "output": "2"})
    for _ in range(2):
        call_command("sync_prices", file=path, stdout=StringIO())
    entry = LogEntry.objects.get()
    assert entry.message.endswith(" loaded prices: 2 new, 0 changed, 0 unchanged, 0 kept (edited here), by manage.py.")
    after = {"new": 2, "changed": 0, "unchanged": 0, "kept": 0, "prices": []}
    assert json.loads(entry.payload)["after"] == after


def test_the_audit_keeps_the_changed_prices_as_they_were_and_as_they_are(table, monkeypatch):
    monkeypatch.setattr(public_prices, "MAX_AUDITED", 2)
    for amount in ("1", "1.50"):
        prices = [entry(name, amount, cacheRead="0.1") for name in "abc"]
        call_command("sync_prices", file=table(*prices, entry("same")), stdout=StringIO())
    row = AuditEntry.objects.order_by("pk").last()
    common = {"currency": "USD", "output": "2", "cacheRead": "0.1"}
    assert json.loads(row.before) == {"prices": [{**common, "model": name, "input": "1"} for name in "ab"]}
    assert json.loads(row.after) == {
        "new": 0, "changed": 3, "unchanged": 1, "kept": 0,
        "prices": [{**common, "model": name, "input": "1.5"} for name in "ab"],
    }  # fmt: skip
