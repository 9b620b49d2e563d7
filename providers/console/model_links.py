"""Where a model is shown, by the name that a log entry or a table of usage has for it, and where its price is set."""

from collections.abc import Mapping

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from gateway_project.console.display.paths import page_path
from gateway_project.console.period import ANY_TIME, Period, period_of, row_page, with_query
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from providers.models import Model


def price_form(model: str, provider_id: int | None = None) -> str:
    """The form for a price of a model, filled in (price_fields) if such a model exists."""
    return with_query(page_path("providers_modelprice_add"), _names(model, provider_id))


def model_page(model: str, provider_id: int | None = None, period: Period = ANY_TIME) -> str:
    """The address of a model's page, with the period; '' without a name. The page redirects to the row."""
    query = _names(model, provider_id) | period.moments()
    return with_query(page_path("model-by-name"), query) if model else ""


def _names(model: str, provider_id: int | None) -> dict[str, str]:
    names = {"model": model, "provider": "" if provider_id is None else str(provider_id)}
    return {name: value for name, value in names.items() if value}


def models_of(names: Mapping[str, str]) -> list[Model]:
    """The models that such an address may mean: several if providers offer the same model and it names none of them.

    As for requests, a model whose own name contains a slash comes before `provider/model`.
    """
    name, provider = names.get("model", ""), names.get("provider", "")
    if not name:
        return []
    prefix, _, rest = name.partition("/")
    last_part = name.rpartition("/")[2]
    is_named = Q(name__in={name, last_part}) | Q(provider__name=prefix, name=rest)
    rows = Model.objects.filter(is_named).select_related("provider").order_by("pk")
    models = list(rows.filter(provider_id=id_in(provider)) if provider else rows)
    return (
        [model for model in models if model.name == name]
        or [model for model in models if (model.provider.name, model.name) == (prefix, rest)]
        or [model for model in models if model.name == last_part]
    )


def price_fields(names: Mapping[str, str]) -> dict[str, str | list[str]]:
    """The values for the form of a price that such an address means; the provider only if a single one fits."""
    models = models_of(names)
    upstream_names = {model.name_at_provider for model in models}
    if not models:
        return {}
    if len(models) > 1:
        return {"model": upstream_names.pop() if len(upstream_names) == 1 else models[0].name}
    return {"model": models[0].name_at_provider, "provider": str(models[0].provider_id)}


@console_site().page("providers/model/named/", name="model-by-name", part=True)
def model_by_name(request: HttpRequest) -> HttpResponse:
    """Redirects to the model that the address names, or to the models with such a name if there is none."""
    query = request.GET.dict()
    if models := models_of(query):
        return HttpResponseRedirect(row_page("providers_model", models[0].pk, period_of(query)))
    return HttpResponseRedirect(with_query(page_path("providers_model_changelist"), {"q": query.get("model", "")}))
