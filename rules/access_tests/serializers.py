"""Attributes of access tests: in answers, and in requests that create or change them."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Choice, Id, Text
from gateway_project.json_types import JsonObject
from rules.access_tests.documents import MAX_BYTES
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import (
    MAX_DESCRIPTION_LENGTH,
    MAX_KEY_NAME_LENGTH,
    MAX_MODEL_LENGTH,
    MAX_NAME_LENGTH,
    AccessTest,
    Expectation,
    Verdict,
)


class AccessTestSerializer(serializers.ModelSerializer):
    """An access test, and whether it holds now."""

    user_id = serializers.IntegerField(allow_null=True)
    user_name = serializers.CharField(source="user.username", default=None, allow_null=True)
    group_id = serializers.IntegerField(allow_null=True)
    group_name = serializers.CharField(source="group.name", default=None, allow_null=True)
    key_name = serializers.SerializerMethodField()
    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)
    holds = serializers.SerializerMethodField()
    because = serializers.SerializerMethodField()

    class Meta:
        model = AccessTest
        fields = (
            *("id", "name", "description", "user_id", "user_name", "group_id", "group_name", "key_name"),
            *("model", "provider_id", "provider_name", "expected", "holds", "because"),
        )

    def get_key_name(self, test: AccessTest) -> str | None:
        return test.key_name or None

    def get_holds(self, test: AccessTest) -> bool:
        return self._verdict(test).holds

    def get_because(self, test: AccessTest) -> str:
        return self._verdict(test).because

    def _verdict(self, test: AccessTest) -> Verdict:
        """The verdict, judged with those of the whole list."""
        verdicts: dict[int, Verdict] = self.root.context.setdefault("verdicts", {})
        if test.pk not in verdicts:
            rows = [test] if self.parent is None else list(self.parent.instance or ())
            verdicts.update({row.pk: verdict for row, verdict in zip(rows, verdicts_of(rows), strict=True)})
        return verdicts[test.pk]


class AccessTestAttributes(Attributes):
    """The attributes of an access test that can be set."""

    example = {
        "name": "Interns may not use the large models",
        "description": "Agreed with finance.",
        "groupId": 2,
        "model": "gpt-5",
        "expected": "denied",
    }
    name = Text(max_length=MAX_NAME_LENGTH)
    description = Text(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH)
    user_id = Id(
        required=False, allow_null=True, help_text="The user of the test. Without keyName the user has a login."
    )
    group_id = Id(
        required=False,
        allow_null=True,
        help_text="The group of the test: its user is a member and in no other group. Not together with userId.",
    )
    key_name = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        max_length=MAX_KEY_NAME_LENGTH,
        help_text="The name of a key of the user.",
    )
    model = Text(
        max_length=MAX_MODEL_LENGTH,
        help_text="The name that the request asks for: a model, provider/model or an alias.",
    )
    provider_id = Id(required=False, allow_null=True, help_text="The provider that the request asks for; null: any.")
    expected = Choice(
        Expectation.values,
        required=False,
        help_text="allowed: the request would be served; denied: it would be refused, whatever its tags.",
    )


class AccessTestFile(Attributes):
    """Access tests as a file."""

    example = {"yaml": "access-tests:\n- name: Interns use it\n  group: interns\n  model: small\n  expected: allowed\n"}
    yaml = Text(max_length=MAX_BYTES, help_text="The text of a file, as exported with format=yaml.")


class ImportedTests(serializers.Serializer[JsonObject]):
    """What an import has done."""

    created = serializers.ListField(child=serializers.CharField(), help_text="The names of new tests.")
    changed = serializers.ListField(child=serializers.CharField(), help_text="The names of tests that were changed.")
    unchanged = serializers.IntegerField(min_value=0)


class ImportAnswer(serializers.Serializer[JsonObject]):
    """The body of the response."""

    data = ImportedTests()  # type: ignore[assignment]  # DRF has a property of this name, which a field replaces
