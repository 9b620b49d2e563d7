"""Who reads a stream from the provider: its own request, the relay, or the thread of those who follow."""

import pytest

from gateway_project.work.streaming.live_stream import LiveStream


def test_the_relay_does_not_look_at_an_answer_that_others_read_and_may_have_closed():
    live = LiveStream(None, None, 0, None)
    live.subscription = object()
    assert live.relay(lambda: pytest.fail("the provider's answer is not this request's any more")) is None


def test_without_followers_the_relay_reads():
    live, relayed = LiveStream(None, None, 0, None), object()
    assert live.relay(lambda: relayed) is relayed
    assert live.relayed is relayed
