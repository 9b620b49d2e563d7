"""The page of a row of each table, in light and dark and on a phone: whole, accessible, light and without movement."""

from collections.abc import Iterator

import pytest
from django.contrib import admin

from tests.console.test_weight import FIRST_VISIT
from tests.support.console.scale import Scale
from tests.support.management import new_user
from tests.support.many_rows import fill
from tests.support.running import RunningGateway, Store, fresh_store
from tests.support.thoroughness import QUARTER, quarter_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, django_db_blocker) -> Iterator[Store]:
    """A database with rows in each table."""
    with fresh_store(tmp_path_factory.mktemp("rows-store")) as store:
        with django_db_blocker.unblock(), store.used_by_orm():
            fill(new_user(username="busy"), 0, 2)
        yield store


@pytest.fixture(scope="module")
def gateway(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with RunningGateway(store, tmp_path_factory.mktemp("rows-gateway")) as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("turn", quarter_of(*range(QUARTER)))
def test_the_page_of_a_row_is_whole(console, turn):
    window = console()
    for path in FIRST_VISIT:
        window.open(path)
    scale = Scale(window)
    for model in list(admin.site._registry)[turn::QUARTER]:
        row = model._default_manager.order_by("pk").last()
        assert row is not None, model
        path = f"{model._meta.app_label}/{model._meta.model_name}/{row.pk}/change/"
        scale.open(path)
        assert window.check_looks() == {}, path
    assert scale.problems() == {}
