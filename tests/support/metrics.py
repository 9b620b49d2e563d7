"""The metrics of a running gateway."""

import requests
from prometheus_client.parser import text_string_to_metric_families


def scraped(world, **options):
    return requests.get(f"{world.gateway.url}/metrics", timeout=10, **options)


def samples(world, name):
    """The samples of a metric: label values in the order of the labels' names."""
    response = scraped(world)
    assert response.status_code == 200
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name == f"gateway_{name}"
    }
