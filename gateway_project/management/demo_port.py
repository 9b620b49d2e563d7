"""Where the demonstration provider listens. `serve` needs this alone of the quick start, which loads much more."""

from providers.models import Provider

DEMO_NAME = "demo"


def demo_port() -> int | None:
    """The port of the demonstration provider; None if the instance has none."""
    provider = Provider.objects.enabled().filter(name=DEMO_NAME, url__startswith="http://127.0.0.1:").first()
    return int(provider.origin.rpartition(":")[2]) if provider else None
