"""AWS signatures, compared with those that botocore makes."""

import calendar
import datetime

import pytest
from botocore import auth as aws
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from providers.transport import auth
from providers.transport.sigv4 import Signer

pytestmark = pytest.mark.either_store

NOW = datetime.datetime(2026, 11, 20, 12, 0, 1, tzinfo=datetime.UTC)
AT = calendar.timegm(NOW.timetuple())
HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
TOKEN = "FwoGZXIvYXdzEBYaD/+="
segments = st.text(st.sampled_from("abcXYZ019-_.~"), min_size=1).filter(lambda text: set(text) != {"."})
paths = st.lists(segments | st.just("eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0"), min_size=1).map("/".join)
names = st.text(st.sampled_from("abcXYZ019-_.~%"), min_size=1)


def as_botocore_does(url, body, token, region="eu-west-1", service="bedrock"):
    """The headers of botocore's signer."""
    request = AWSRequest("POST", url, data=body)
    request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
    signer = aws.SigV4Auth(Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", token), service, region)
    signer._modify_request_before_signing(request)
    canonical = signer.canonical_request(request)
    signer._inject_signature_to_request(request, signer.signature(signer.string_to_sign(request, canonical), request))
    return {name.lower(): value for name, value in request.headers.items()}


def ours(url, body, token="", region="eu-west-1", service="bedrock"):
    signer = Signer("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", token, region, service)
    return {name.lower(): value for name, value in signer.headers(url, body, AT).items()}


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize(
    "url",
    [
        HOST,
        f"{HOST}/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse",
        f"{HOST}/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.a/converse-stream",
        f"{HOST}/model/m/converse?b=2&a=1&a=0&c",
        "http://127.0.0.1:8080/v1/model/m/converse",
    ],
)
def test_it_is_the_signature_that_botocore_makes(url, token):
    assert ours(url, b'{"a": 1}', token) == as_botocore_does(url, b'{"a": 1}', token)


@given(path=paths, body=st.binary(), query=st.lists(st.tuples(names, names), max_size=3))
def test_it_is_so_for_every_address_and_body(path, body, query):
    asked = "?" + "&".join(f"{name}={value}" for name, value in query) if query else ""
    url = f"{HOST}/model/{path}{asked}"
    assert ours(url, body) == as_botocore_does(url, body, "")


class TestCredential:
    def signer(self, credential, address=HOST):
        return auth.signer("aws-sigv4", credential, address)

    def test_it_has_two_parts_or_more(self):
        assert self.signer("AKID:secret") == Signer("AKID", "secret", "", "eu-west-1", "bedrock")
        assert self.signer(f"AKID:secret:{TOKEN}") == Signer("AKID", "secret", TOKEN, "eu-west-1", "bedrock")

    @pytest.mark.parametrize("credential", ["AKID", "AKID:", ":secret", "a:b:c:d:e", "sk-secret"])
    def test_anything_else_is_refused_and_not_repeated(self, credential):
        with pytest.raises(auth.CredentialUnusable) as caught:
            self.signer(credential)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("address", "region", "service"),
        [
            ("https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1", "bedrock"),
            ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/", "us-gov-west-1", "bedrock"),
            ("https://vpce-1a.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2", "bedrock"),
            ("https://runtime.sagemaker.eu-central-1.amazonaws.com", "eu-central-1", "sagemaker"),
        ],
    )
    def test_region_and_service_are_the_hosts(self, address, region, service):
        signer = self.signer("AKID:secret:token:mars-north-1", address)
        assert (signer.region, signer.service) == (region, service)

    def test_a_host_that_names_no_region_needs_one(self):
        assert self.signer("AKID:secret::eu-west-1", "http://127.0.0.1:80").region == "eu-west-1"
        with pytest.raises(auth.CredentialUnusable, match="REGION"):
            self.signer("AKID:secret", "https://models.example.org")

    def test_other_methods_sign_nothing(self):
        assert auth.signer("bearer", "AKID:secret", HOST) is None
        assert self.signer("") is None

    def test_it_is_never_printed(self):
        assert "secret" not in repr(self.signer("AKID:secret:secret"))
        assert auth.secrets("aws-sigv4", "AKID:secret:token:eu-west-1") == {"AKID", "secret", "token"}
