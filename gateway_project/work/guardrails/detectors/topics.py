"""The type `topic`: what a text may contain, how long it may be, and which models and tools may be used."""

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

import re2

from gateway_project.work.guardrails.detectors.base import Detector, Match
from gateway_project.work.guardrails.detectors.kinds.scanner import Kind, KindScanner
from gateway_project.work.guardrails.detectors.languages.detector import LANGUAGES, Languages
from gateway_project.work.guardrails.detectors.parameters import Parameters, invalid_parameter
from gateway_project.work.guardrails.detectors.patterns import Patterns

MAX_TEXTS, MAX_TEXT_LENGTH, MAX_CHARACTERS = 200, 500, 100_000_000
SCRIPTS = (
    *("Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati"),
    *("Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam"),
    *("Mongolian", "Myanmar", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan"),
)
MEMBERS = (
    *("maxLength", "allowedLanguages", "scripts", "images", "urls", "hosts"),
    *("models", "forbiddenTools", "forbiddenToolArguments"),
)  # fmt: skip
_ADDRESS = r"[^\s)>\"'\]]+"
_URL = re.compile(r"(?i)(?:https?|ftps?|wss?):/{1,3}[^\s)>\"'\]]+|//[^\s)>\"'\]]+|www\.[^\s)>\"'\]]+|data:\S+")


class Topic(Detector):
    """The parts of a topic; those for models and tools are detectors of their own."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        max_length: int | None,
        models: Detector | None,
        tools: Detector | None,
        calls: Detector | None,
        prose: Detector | None,
    ) -> None:
        self._detectors = tuple(detectors)
        self.models, self.tools, self.calls, self.prose = models, tools, calls, prose
        self.max_length = max_length
        self.searches_texts = bool(detectors) or max_length is not None
        self.longest = max((one.longest for one in detectors), default=0)

    def scan(self, text: str, start: int = 0) -> list[Match]:
        """Without the length, which `excess` judges: the text may be a part."""
        return sorted(match for detector in self._detectors for match in detector.scan(text, start))

    def pending_start(self, text: str, start: int = 0) -> int:
        return min((one.pending_start(text, start) for one in self._detectors), default=len(text))


class Names(Detector):
    """Whole names: those that match a pattern, or all others."""

    def __init__(self, pattern: "re2._Regexp", category: str, *, finds_others: bool = False) -> None:
        self._pattern, self._category, self._finds_others = pattern, category, finds_others

    def scan(self, text: str, start: int = 0) -> list[Match]:
        is_named = self._pattern.fullmatch(text) is not None
        return [Match(0, len(text), self._category)] if is_named != self._finds_others else []


def compile_topic(members: Mapping[str, object]) -> Topic:
    parameters = Parameters(members, names=MEMBERS)
    if not members:
        raise invalid_parameter("maxLength", f"is missing: set at least one of {', '.join(MEMBERS)}.")
    return Topic(
        [*_links(parameters), *_scripts(parameters)],
        max_length=parameters.number("maxLength", most=MAX_CHARACTERS),
        models=_names(parameters, "models", "model", finds_others=True),
        tools=_names(parameters, "forbiddenTools", "tool"),
        calls=_arguments(parameters),
        prose=_languages(parameters),
    )


def _links(parameters: Parameters) -> list[Detector]:
    """Images and URLs, unless they may stand in a text; those of allowed hosts may."""
    images, urls = parameters.flag("images", default=True), parameters.flag("urls", default=True)
    hosts = tuple(host.lower() for host in parameters.texts("hosts", most=MAX_TEXTS, longest=MAX_TEXT_LENGTH))
    check = _foreign_host_check(hosts)
    kinds = [*([] if images else _image_kinds(check)), *([] if urls else _url_kinds(check))]
    if hosts and not kinds:
        raise invalid_parameter("hosts", "only has an effect if images or urls is false.")
    return [KindScanner(kinds)] if kinds else []


def _image_kinds(check: Callable[[str], int]) -> list[Kind]:
    """Images in Markdown (inline, by reference, and where the references point to) and in HTML."""
    inline, html = (
        rf"!\[[^\]\n]{{0,500}}\]\(\s{{0,20}}<?{_ADDRESS}",
        r"(?i:<(?:img|image|picture|source|video|iframe)\b)[^>]{0,1000}>?",
    )
    return [
        Kind("image", inline, r"!\[", check, begins_word=False),
        Kind("image", r"!\[[^\]\n]{0,500}\](?:\[[^\]\n]{0,200}\])?", r"!\[", _reference, begins_word=False),
        Kind("image", rf"\[[^\]\n]{{1,200}}\]:\s{{0,20}}<?{_ADDRESS}", r"\[[^\]\n]+\]:", check, begins_word=False),
        Kind("image", html, r"(?i:<(?:img|image|picture|source|video|iframe)\b)", check, begins_word=False),
    ]


def _url_kinds(check: Callable[[str], int]) -> list[Kind]:
    scheme = r"(?i:https?|ftps?|wss?):/{1,3}"
    return [
        Kind("url", rf"{scheme}{_ADDRESS}", scheme, check),
        Kind("url", rf"(?i:www)\.{_ADDRESS}", r"(?i:www)\.\w", check),
        Kind("url", rf"\]\(\s{{0,20}}<?//{_ADDRESS}", r"\]\(\s{0,20}<?//", check, begins_word=False),
    ]


def _reference(text: str) -> int:
    """An image by reference; `![…](…)` is judged by its address."""
    return len(text) if text.endswith("]") and "][" in text else 0


def _foreign_host_check(hosts: Sequence[str]) -> Callable[[str], int]:
    """The check for what points to another host than those allowed (`example.com`, `*.example.com`)."""

    def check(text: str) -> int:
        addresses = _URL.findall(text)
        return 0 if addresses and hosts and all(_is_allowed(address, hosts) for address in addresses) else len(text)

    return check


def _is_allowed(address: str, hosts: Sequence[str]) -> bool:
    address = address.replace("\\", "/")
    try:
        host = urlsplit(f"//{address}" if address.lower().startswith("www.") else address).hostname or ""
    except ValueError:
        return False
    return any(host == one or (one.startswith("*.") and host.endswith(one[1:])) for one in hosts)


def _scripts(parameters: Parameters) -> list[Detector]:
    """Letters of other scripts than those allowed."""
    names = parameters.texts("scripts", most=len(SCRIPTS), longest=20)
    if not names:
        return []
    parameters.choices("scripts", SCRIPTS)
    allowed = "".join(rf"\p{{{name}}}" for name in names)
    return [Patterns([rf"[^\P{{L}}\p{{Common}}\p{{Inherited}}{allowed}]"], ignore_case=False, names=["script"])]


def _languages(parameters: Parameters) -> Languages | None:
    """Sentences in another language than those allowed."""
    names = parameters.texts("allowedLanguages", most=len(LANGUAGES), longest=20)
    return Languages(parameters.choices("allowedLanguages", LANGUAGES)) if names else None


def _names(parameters: Parameters, name: str, category: str, *, finds_others: bool = False) -> Names | None:
    pattern = _any_of(parameters, name)
    return None if pattern is None else Names(pattern, category, finds_others=finds_others)


def _arguments(parameters: Parameters) -> Detector | None:
    """What the arguments of tools must not contain."""
    if _any_of(parameters, name := "forbiddenToolArguments") is None:
        return None
    patterns = parameters.texts(name, most=MAX_TEXTS, longest=MAX_TEXT_LENGTH)
    return Patterns(patterns, ignore_case=False, names=["tool_argument"] * len(patterns))


def _any_of(parameters: Parameters, name: str) -> "re2._Regexp | None":
    """One of the patterns of an array, or None if there are none."""
    patterns = parameters.texts(name, most=MAX_TEXTS, longest=MAX_TEXT_LENGTH)
    options = re2.Options()
    options.log_errors = False
    for position, pattern in enumerate(patterns):
        try:
            re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError):
            raise invalid_parameter(f"{name}.{position}", "is not a valid RE2 pattern.") from None
    return re2.compile("|".join(f"(?:{one})" for one in patterns), options) if patterns else None
