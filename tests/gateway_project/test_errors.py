"""The tree of errors."""

import re

import pytest

from gateway_project import errors

STATUS = {
    "ValidationError": 400,
    "ProviderNotSelected": 400,
    "AuthenticationFailed": 401,
    "PermissionDenied": 403,
    "RuleDenied": 403,
    "LicenceInvalid": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "Conflict": 409,
    "PayloadTooLarge": 413,
    "UnsupportedMediaType": 415,
    "RateLimited": 429,
    "QuotaExceeded": 429,
    "ActiveUseLimitReached": 429,
    "InternalError": 500,
    "ProviderError": 502,
    "ProviderOverloaded": 503,
    "ProviderTimeout": 504,
    "CacheMiss": 504,
    "ServiceUnavailable": 503,
}


@pytest.mark.parametrize(("name", "code"), STATUS.items())
def test_each_error_knows_its_status_and_name(name, code):
    error = getattr(errors, name)("why")
    assert error.body() == {"code": code, "exception": name, "message": "why"}
    assert str(error) == "why"
    assert getattr(errors, name)().message


def test_the_drawing_shows_every_error_under_its_parent():
    drawn = re.findall(r"^ {4}(│   |    )?[├└]── (\w+)", errors.__doc__, re.MULTILINE)
    parent = None
    shown = {"GatewayError"}
    for inner, name in drawn:
        base = getattr(errors, parent) if inner else errors.GatewayError
        assert getattr(errors, name).__bases__ == (base,)
        parent = parent if inner else name
        shown.add(name)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    classes = {kind.__name__ for kind in kinds if issubclass(kind, errors.GatewayError)}
    assert shown == classes


def test_some_statuses_are_the_providers():
    assert errors.ProviderRejected("no", code=422).body()["code"] == 422
    assert errors.ProviderOverloaded(code=429).code == 429
    assert errors.ProviderOverloaded().code == 503


@pytest.mark.parametrize(("seconds", "header"), [(0, "0"), (0.1, "1"), (1, "1"), (1.5, "2"), (-3, "0")])
def test_the_time_to_retry_is_told_in_whole_seconds_rounded_up(seconds, header):
    assert errors.RateLimited(retry_after=seconds).headers == {"Retry-After": header}


def test_headers_belong_to_the_instance():
    first = errors.MethodNotAllowed(headers={"Allow": "GET"})
    assert first.headers == {"Allow": "GET"}
    assert errors.MethodNotAllowed().headers == {}
    assert errors.AuthenticationFailed().headers == {"WWW-Authenticate": "Bearer"}
    assert errors.ProviderOverloaded().headers == {}
    assert "Retry-After" in errors.ServiceUnavailable().headers


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        (errors.NotFound(), "warning"),
        (errors.RateLimited(), "warning"),
        (errors.CacheMiss(), "warning"),
        (errors.ProviderOverloaded(code=429), "warning"),
        (errors.ProviderError(), "error"),
        (errors.InternalError(), "error"),
    ],
)
def test_severity_follows_from_whose_fault_it_is(error, severity):
    assert error.severity == severity


def test_the_problems_of_fields_become_one_sentence():
    problems = {"name": ["Too long.", "Taken."], "__all__": ["Both are set."]}
    assert errors.ValidationError.from_fields(problems).message == "name: Too long. Taken. Both are set."


def test_the_problem_of_one_field_is_named_apart_from_its_message():
    error = errors.ValidationError.from_fields({"name": ["Too long."]})
    assert (error.message, error.field, error.sentence) == ("Too long.", "name", "name: Too long.")


@pytest.mark.parametrize(
    ("error", "source"),
    [
        (errors.ValidationError("x", field="messages[0].calls[1].a/b"), {"pointer": "/messages/0/calls/1/a~1b"}),
        (errors.ValidationError("x", field="/data/id"), {"pointer": "/data/id"}),
        (errors.ValidationError("x", parameter="page[size]"), {"parameter": "page[size]"}),
        (errors.ValidationError("x", header="X-Svc-Timeout"), {"header": "X-Svc-Timeout"}),
        (
            errors.ProviderRejected("x", field="messages[0]"),
            None,
        ),  # a place in the provider's request, not the client's
        (errors.NotFound("x"), None),
    ],
)
def test_an_error_object_names_the_place(error, source):
    (result,) = error.document()["errors"]
    assert result.pop("source", None) == source
    assert result == {"status": str(error.code), "code": error.exception, "title": result["title"], "detail": "x"}


def test_no_document_has_more_error_objects_than_it_may():
    problems = {f"field{number}": ["Wrong."] for number in range(5000)}
    assert len(errors.ValidationError.from_fields(problems).document()["errors"]) == errors.MAX_PROBLEMS


def test_what_is_long_is_cut_after_what_nobody_may_read_was_taken_out_of_all_of_it():
    secret = "sk-secret"
    error = errors.ProviderRejected("x" * 2044 + secret, code=400, field="f" * 252 + secret, reason=secret)
    error.redact(lambda text: text.replace(secret, "…"))
    assert (error.message, error.field, error.reason) == ("x" * 2044 + "…", "f" * 252 + "…", "…")
    assert error.body()["message"] == str(error) == error.message


def test_a_message_is_one_sentence_however_much_it_repeats():
    error = errors.ValidationError("z" * 3_000_000, field="z" * 3_000_000)
    assert (len(error.message), len(error.field), len(str(error))) == (2048, 256, 2048)
    assert error.message.endswith("z…")
