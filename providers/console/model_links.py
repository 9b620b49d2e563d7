"""Where a model is shown, by the name that a log entry or a table of usage has for it, and where its price is set."""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from gateway_project.console.period import ANY_TIME, Period, period_of, row_page, with_query
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from providers.models import Model


def price_form(model: str, provider_id: int | None = None) -> str:
    """The form for a price of a model, filled in if such a model exists."""
    return with_query(reverse("admin:providers_modelprice_add"), _names(model, provider_id))


def model_page(model: str, provider_id: int | None = None, period: Period = ANY_TIME) -> str:
    """The address of a model's page, with the period; '' without a name. The page redirects to the row."""
    query = _names(model, provider_id) | period.moments()
    return with_query(reverse("admin:model-by-name"), query) if model else ""


def _names(model: str, provider_id: int | None) -> dict[str, str]:
    names = {"model": model, "provider": "" if provider_id is None else str(provider_id)}
    return {name: value for name, value in names.items() if value}


def model_of(names: Mapping[str, str]) -> Model | None:
    """The model that such an address names, also as `provider/model`; only an existing one fills in a form."""
    name, provider = names.get("model", ""), names.get("provider", "")
    rows = Model.objects.select_related("provider").order_by("pk")
    if provider:
        rows = rows.filter(provider_id=id_in(provider))
    return rows.filter(name=name).first() or rows.filter(name=name.rpartition("/")[2]).first()


@console_site().page("providers/model/named/", name="model-by-name", part=True)
def model_by_name(request: HttpRequest) -> HttpResponse:
    """Redirects to the model that the address names, or to the models with such a name if there is none."""
    query = request.GET.dict()
    if (row := model_of(query)) is not None:
        return HttpResponseRedirect(row_page("providers_model", row.pk, period_of(query)))
    return HttpResponseRedirect(with_query(reverse("admin:providers_model_changelist"), {"q": query.get("model", "")}))
