"""The program and the system behind a browser's User-Agent header, for people; also a filter of all templates."""

from django import template

from gateway_project.console.display.money import Figure

register = template.Library()
# The first that the header names: Edge and Opera also name Chrome, and Chrome names Safari.
PROGRAMS = {"Edg": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
# Likewise: Android also names Linux, and iPhones name Mac OS X.
SYSTEMS = {
    "Windows": "Windows", "Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Mac OS X": "macOS",
    "CrOS": "ChromeOS", "Linux": "Linux",
}  # fmt: skip


@register.filter
def device_name(user_agent: str) -> Figure:
    """Such as "Chrome on Linux", with the whole header on hover; the header itself for other programs."""
    program, system = _first(PROGRAMS, user_agent), _first(SYSTEMS, user_agent)
    return Figure(f"{program} on {system}" if program and system else user_agent, user_agent)


def _first(names: dict[str, str], user_agent: str) -> str:
    return next((name for mark, name in names.items() if mark in user_agent), "")
