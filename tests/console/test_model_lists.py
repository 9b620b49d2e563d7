"""The lists of models and prices in the browser."""

from tests.console.conftest import stand_still


def test_a_model_shows_price_and_traffic_and_leads_to_the_playground(console, world):
    world.provider().answers(text="Lisbon")
    world.allow(everyone="user")
    world.price("1.25", 10)
    world.entry(world.ask())
    window = console()
    page = window.page

    def shows_traffic() -> bool:
        window.open(f"providers/model/?q={world.model}")
        return page.inner_text("#result_list tbody .field-traffic").split()[-1] == "1"

    world.until(shows_traffic)
    assert "$1.25 input, $10 output" in page.inner_text("#result_list tbody .field-price")
    assert window.check_looks() == {}
    page.click("#result_list tbody >> text=Try")
    stand_still(page)
    assert page.input_value("[name=model]") == world.model
    assert window.problems == []


def test_prices_begin_with_those_of_my_models(console, world):
    world.provider()
    mine, foreign = world.price(1, 2), world.price(3, 4, model=world.name("foreign"))
    window = console()
    page = window.page
    window.open(f"providers/modelprice/?q={mine.model}")
    assert "$1" in page.inner_text("#result_list tbody")
    window.open(f"providers/modelprice/?q={foreign.model}")
    assert page.locator("#result_list").count() == 0
    page.click(".console-tabs >> text=All")
    stand_still(page)
    assert page.inner_text(".console-tabs [aria-current]") == "All"
    assert foreign.model in page.inner_text("#result_list tbody")
    assert window.check_looks() == {}
