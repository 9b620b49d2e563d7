"""Usage as a file for a spreadsheet."""

import csv
import io
from datetime import timedelta

import pytest

from gateway_project.api.names import camel
from telemetry.journal.batches import insert_log_entries
from telemetry.models import UsageHour
from telemetry.usage import rollups, statistics
from tests.support.management import refused
from tests.support.usage_entries import HOUR, WITHIN, done, paid

pytestmark = pytest.mark.django_db(transaction=True)


class TestSpreadsheets:
    def lines(self, response):
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert "attachment" in response.headers["Content-Disposition"]
        return list(csv.DictReader(io.StringIO(response.text)))

    def test_every_row_and_every_currency(self, admin):
        insert_log_entries([paid("0.5", model=f"m{number:03d}") for number in range(150)])
        insert_log_entries([paid("0.25", currency="EUR", status="estimated", model="m000")])
        lines = self.lines(admin.get(f"/stats/usage/?{WITHIN}&by=model&format=csv&sort=model"))
        assert len(lines) == 150
        first = lines[0]
        assert (first["model"], first["requests"], first["inputTokens"]) == ("m000", "2", "20")
        costs = {name: value for name, value in first.items() if "ost" in name and name != "unknownCostRequests"}
        assert costs == {
            "costEUR": "0", "estimatedCostEUR": "0.25", "savedCostEUR": "0",
            "costUSD": "0.5", "estimatedCostUSD": "0", "savedCostUSD": "0",
        }  # fmt: skip
        assert lines[1]["costEUR"] == ""

    @pytest.mark.parametrize("merged", [False, True])
    @pytest.mark.parametrize(("by", "column"), statistics.DIMENSIONS.items())
    def test_every_dimension_tells_the_same_as_a_list(self, admin, by, column, merged):
        common = {"group_ids": [1, 2], "model": "m", "alias": "a", "tags": {"team": "x"}}
        ids = {"user_id": 8, "group_ids": [2], "key_id": 18, "provider_id": 28}
        other = {**ids, "model": "n", "alias": "b", "tags": {"team": "y"}}
        insert_log_entries([paid("0.5", user_id=7, key_id=17, provider_id=27, **common) for _ in range(3)])
        insert_log_entries([paid("0.25", HOUR + timedelta(days=1, hours=1), **other)])
        if merged:
            for hour in list(UsageHour.objects.values_list("hour", flat=True)):
                rollups.merge_hour(hour)
        rows = admin.rows(f"/stats/usage/?{WITHIN}&by={by}")
        lines = self.lines(admin.get(f"/stats/usage/?{WITHIN}&by={by}&format=csv"))
        name = camel(column)
        results = [(str(row[name]), str(row["requests"]), row["costs"][0]["known"]) for row in rows]
        assert results == [(line[name], line["requests"], line["costUSD"]) for line in lines]
        assert by != "hour" or [row["hour"][11:13] for row in rows] == ["08", "09"]
        requests, costs = [results[1] for results in results], [results[2] for results in results]
        assert (requests, costs) == ((["4", "3"], ["1.75", "1.5"]) if by == "group" else (["3", "1"], ["1.5", "0.25"]))

    def test_accept_asks_for_it_too(self, admin):
        insert_log_entries([done("r")])
        path = f"/stats/usage/?{WITHIN}&by=day,user"
        (line,) = self.lines(admin.get(path, headers={"Accept": "text/csv"}))
        assert (line["day"], line["userId"], line["userName"]) == ("2027-01-15", "", "")
        for accept in ("application/vnd.api+json, text/csv;q=0.5", "*/*"):
            assert admin.get(path, headers={"Accept": accept}).json()["meta"]["totalCount"] == 1
        assert admin.get(f"{path}&format=json", headers={"Accept": "text/csv"}).json()["data"]

    @pytest.mark.parametrize("query", ["page[size]=x", "page[size]=5", "page[number]=1", "page[number]=9"])
    def test_there_are_no_pages_of_it(self, admin, query):
        path, name = f"/stats/usage/?{WITHIN}&{query}", query.partition("=")[0]
        refused(admin.get(f"{path}&format=csv"), 400, "ValidationError", name)
        refused(admin.get(path, headers={"Accept": "text/csv"}), 400, "ValidationError", name)

    @pytest.mark.parametrize("name", ['=HYPERLINK("http://evil")', "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
    def test_a_formula_is_shown_as_a_text(self, admin, name):
        insert_log_entries([done("r", model=name, tags={"team": "x"})])
        (line,) = self.lines(admin.get(f"/stats/usage/?{WITHIN}&by=model&format=csv"))
        assert line["model"] == f"'{name}"

    @pytest.mark.parametrize("separator", [";", "\t"])
    @pytest.mark.parametrize(
        "name", ["x;=cmd|' /C calc'!A0;", 'x;"=1"', "x; =1", "x\t=1", "x\n=1", 'x";"";=1', ';;\n""=1']
    )
    def test_no_formula_begins_where_a_reader_with_another_separator_sees_a_cell(self, admin, name, separator):
        insert_log_entries([done("r", model=name)])
        text = admin.get(f"/stats/usage/?{WITHIN}&by=model&format=csv").text
        cells = [cell.strip(' "') for row in csv.reader(io.StringIO(text), delimiter=separator) for cell in row]
        assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == []

    def test_what_is_empty_has_its_columns_all_the_same(self, admin):
        response = admin.get(f"/stats/usage/?{WITHIN}&format=csv")
        assert response.text.startswith("day,requests,completed,")

    def test_what_is_too_long_is_refused(self, admin, monkeypatch):
        monkeypatch.setattr("telemetry.services.MAX_EXPORTED_ROWS", 2)
        insert_log_entries([done("r", model=f"m{number}") for number in range(3)])
        refused(admin.get(f"/stats/usage/?{WITHIN}&by=model&format=csv"), 400, "ValidationError", "shorter period")
