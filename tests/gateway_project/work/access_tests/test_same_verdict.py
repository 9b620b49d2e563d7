"""Access tests and the pipeline decide alike, for a thousand tests in random worlds."""

import itertools
import json
from random import Random
from uuid import uuid4

import pytest

from accounts.models import Group, Role, User
from accounts.services import create_group
from gateway_project.work import pipeline
from gateway_project.work.access_tests.judging import StoredJudge
from gateway_project.work.explain.subjects import Subject, authentication_as
from gateway_project.work.reading.request import read_request
from gateway_project.work.runtime import make_gateway
from gateway_project.work.snapshot.loading import load_all
from gateway_project.work.stages.candidates import choose_candidates
from gateway_project.work.stages.rules import apply_rules
from keys.models import ApiKey
from keys.services import issue_key
from providers.models import Provider
from providers.services import create_provider
from rules.access_tests.models import AccessTest
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from rules.models import Rule
from tests.support.management import new_user
from tests.support.random_world import exchange_of

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]

WORLDS, MANY_WORLDS, TESTS = 2, 50, 200
MODELS = [f"m{number}" for number in range(6)]
PATTERNS = ["", "m[0-3]", "m.*", "m1|m2", "a.*", "a[02]", "nothing", "m4|", "(m|a)[1-3]"]
STAGES = tuple(map(pipeline.Stage, (read_request, apply_rules, choose_candidates)))
TAGS = ({}, {"HTTP_X_SVC_TAGS": "stage=beta"})


class RandomWorld:
    """Stored users, groups, keys, rules, providers and aliases."""

    def __init__(self, random: Random) -> None:
        self.random = random
        for model in (Rule, Alias, ApiKey, Provider):
            model.objects.all().delete()
        self.providers = [self.provider(number) for number in range(4)]
        self.users = [new_user(roles=["user"] if self.chance(0.95) else []) for _ in range(8)]
        self.groups = [create_group(name=uuid4().hex) for _ in range(5)]
        for user in self.users:
            user.groups.set(random.sample(self.groups, random.randrange(3)))
        Group.objects.filter(pk=self.groups[0].pk).update(parent=self.groups[1])
        User.objects.filter(pk=self.users[0].pk).update(is_active=False)
        self.aliases = [self.alias(number) for number in range(4)]
        self.keys = [self.key(number) for number in range(12)]
        for number in range(random.randrange(5, 25)):
            self.rule(number)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def provider(self, number: int) -> Provider:
        models = self.random.sample(MODELS, 3)
        return create_provider(
            name=f"p{number}", url="https://api.example.org", format_name="openai", models=models,
            enabled=self.chance(0.8),
        )  # fmt: skip

    def alias(self, number: int) -> Alias:
        pick, targets = self.random, []
        for provider in pick.sample(self.providers, 2):
            match = {"tags": {"stage": "beta"}} if self.chance(0.3) else {}
            if self.chance(0.2):
                match["groupId"] = pick.choice(self.groups).pk
            model = pick.choice([row.name for row in provider.models.all()])
            targets.append(TargetDraft(provider_id=provider.pk, model=model, tier=pick.randrange(2), match=match))
        name = ["a0", "a1", "a*", "m5"][number]
        return create_alias(name=name, targets=targets, enabled=self.chance(0.9))

    def key(self, number: int) -> ApiKey:
        pick = self.random
        key = issue_key(
            owner=pick.choice([user for user in self.users if user.roles.exists()]),
            name=f"key-{number}",
            provider=pick.choice(self.providers) if self.chance(0.2) else None,
            models=pick.choice([[], [], ["m[0-3]", "a.*"], ["m.*"]]),
            tags={"stage": "beta"} if self.chance(0.2) else {},
        ).key
        if self.chance(0.1):
            ApiKey.objects.filter(pk=key.pk).update(**pick.choice([{"permissions": []}, {"is_deleted": True}]))
        return key

    def rule(self, number: int) -> None:
        pick, audience = self.random, self.random.choice(["user", "group", "group", "everyone", "nobody"])
        Rule.objects.create(
            name=f"rule-{number}",
            regex=pick.choice(PATTERNS),
            user=pick.choice(self.users) if audience == "user" else None,
            group=pick.choice(self.groups) if audience == "group" else None,
            everyone="user" if audience == "everyone" else "",
            provider=pick.choice(self.providers) if self.chance(0.4) else None,
            effect="deny" if self.chance(0.2) else "allow",
            enabled=self.chance(0.9),
            position=pick.choice([50, 100, 100, 150]),
        )

    def test(self) -> AccessTest:
        """A test that is not stored."""
        pick = self.random
        test = AccessTest(
            model=pick.choice([*MODELS, "a0", "a1", "axe", "p1/m1", "p2/m5", "unknown"]),
            provider=pick.choice(self.providers) if self.chance(0.3) else None,
            expected=pick.choice(["allowed", "denied"]),
        )
        if self.chance(0.3):
            test.group = pick.choice(self.groups)
        elif self.chance(0.5):
            key = pick.choice(self.keys)
            test.user, test.key_name = key.owner, key.name
        else:
            test.user = pick.choice(self.users)
        return test


class Pipeline:
    """Sends what a test is about through the pipeline's stages."""

    def __init__(self, gateway) -> None:
        self.gateway, self.snapshot = gateway, gateway.snapshot
        load_all(self.snapshot)

    def serves(self, test: AccessTest) -> bool:
        """Whether the request is served; for a denial, with any tags."""
        subject = self.subject(test)
        headers = {"HTTP_X_SVC_PROVIDER": test.provider.name} if test.provider is not None else {}
        tags = TAGS if test.expects_denial else TAGS[:1]
        return subject is not None and any(self.answers(subject, test.model, headers | tag) for tag in tags)

    def answers(self, subject: Subject, model: str, headers: dict) -> bool:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}).encode()
        exchange = exchange_of(headers | {"CONTENT_TYPE": "application/json"}, body, self.gateway)
        pipeline.run_stages(exchange, self.gateway, (authentication_as(subject), *STAGES))
        return exchange.error is None and bool(exchange.selection.targets)

    def subject(self, test: AccessTest) -> Subject | None:
        if test.group is not None:
            member = new_user(roles=["user"])
            member.groups.set([test.group])
            load_all(self.snapshot)
            return Subject(self.snapshot.callers[member.pk])
        caller = self.snapshot.callers[test.user.pk]
        keys = [key for key in self.snapshot.keys.values() if (key.owner_id, key.name) == (caller.id, test.key_name)]
        if test.key_name:
            return Subject(caller, keys[0]) if keys else None
        return Subject(caller)


@pytest.fixture
def gateway(settings, tmp_path):
    settings.GATEWAY_JOURNAL_DIR = tmp_path
    settings.GATEWAY_REDIS_PREFIX = f"same-verdict-{uuid4().hex}"
    parts = make_gateway()
    yield parts
    parts.journal.close()


@pytest.mark.parametrize(
    ("seed", "worlds"),
    [(24, WORLDS), pytest.param(25, MANY_WORLDS, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids=["hundreds", "ten thousand"],
)
def test_tests_hold_if_the_pipeline_says_so(gateway, seed, worlds):
    random, counts = Random(seed), {True: 0, False: 0}
    assert Role.objects.filter(name="user").exists()
    for _ in range(worlds):
        world, requests = RandomWorld(random), Pipeline(gateway)
        tests = [world.test() for _ in range(TESTS)]
        judge = StoredJudge(tests)
        for test in tests:
            is_served = requests.serves(test)
            counts[is_served] += 1
            assert judge.holds(test) is (is_served is not test.expects_denial), (vars(test), judge.explain(test))
            assert judge.explain(test).endswith(".")
    assert min(counts.values()) > worlds * TESTS * 0.08, counts
    assert sum(counts.values()) == worlds * TESTS


def test_what_a_change_left_alone_is_not_loaded_again(django_assert_num_queries):
    user = new_user()
    rules = [Rule.objects.create(name=f"r{number}", regex=f"m{number}", user=user) for number in range(5)]
    test = AccessTest(user=user, model="m1")
    judge = StoredJudge([test])
    compiled = dict(judge._snapshot.rule_rows)
    Rule.objects.filter(pk=rules[1].pk).update(regex="m7")
    with django_assert_num_queries(1):
        judge.reload(["rules"])
    now = judge._snapshot.rule_rows
    same = [now[rule.pk] is compiled[rule.pk] for rule in rules]
    assert same == [True, False, True, True, True]
    assert list(itertools.islice(now, 5)) == [rule.pk for rule in rules]
