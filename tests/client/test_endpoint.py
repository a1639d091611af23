"""Addresses, path segments and headers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient import ClientOptions, ConfigurationError, EventClient, InvalidEventError
from eventclient.client.endpoint import Endpoint, direct_endpoint, segment

from .answers import log_reply
from .samples import event, steps
from .stage import Honest, stage

SECRET = "do-not-show-me"


def endpoint(base_url: str, **changes: Any) -> Endpoint:
    told: dict[str, Any] = {"token": None, "headers": None, "allow_plain_http": False} | changes
    return direct_endpoint(base_url, **told)


# -- base URL ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("http://127.0.0.1:4437", "http://127.0.0.1:4437/api"),
        ("http://127.0.0.1:4437/", "http://127.0.0.1:4437/api"),
        ("https://events.test", "https://events.test/api"),
        ("https://events.test/prefix", "https://events.test/prefix/api"),
        ("HTTPS://Events.test", "https://events.test/api"),
        ("http://[::1]:80", "http://[::1]/api"),
    ],
)
def test_the_api_is_below_the_origin(base_url: str, expected: str) -> None:
    assert endpoint(base_url).base_url == expected


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("", "http or https URL"),
        ("127.0.0.1:4437", "http or https URL"),
        ("/api", "http or https URL"),
        ("ftp://events.test", "http or https URL"),
        ("file:///etc/passwd", "http or https URL"),
        ("http://", "http"),
        ("http://:80", "URL"),
        ("http://events.test:0", "http or https URL"),
        ("http://events.test:99999", "URL"),
        ("http://events.test:port", "no URL"),
        (f"http://user:{SECRET}@events.test", "user name or password"),
        ("http://user@events.test", "user name or password"),
        (f"http://events.test?token={SECRET}", "no query"),
        (f"http://events.test#{SECRET}", "no fragment"),
        (5, "URL"),
    ],
)
def test_what_is_no_base_url_is_refused(base_url: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        EventClient(base_url)
    assert SECRET not in str(refused.value)


def test_without_any_server_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERCEL_WORKFLOW_SERVER_URL", raising=False)
    with pytest.raises(ConfigurationError, match=r"base_url.*VERCEL_WORKFLOW_SERVER_URL"):
        EventClient()


def test_the_environment_names_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERCEL_WORKFLOW_SERVER_URL", " http://127.0.0.1:1 ")
    assert repr(EventClient()) == "<EventClient http://127.0.0.1:1/api>"
    monkeypatch.setenv("VERCEL_WORKFLOW_SERVER_URL", "nowhere")
    with pytest.raises(ConfigurationError, match="VERCEL_WORKFLOW_SERVER_URL must be"):
        EventClient()
    assert repr(EventClient("http://127.0.0.1:2")) == "<EventClient http://127.0.0.1:2/api>"


# -- tokens ------------------------------------------------------------------------------------

LOOPBACK = [
    "http://127.0.0.1",
    "http://127.8.9.1:99",
    "http://localhost",
    "http://a.localhost",
    "http://[::1]:4437",
]
PLAIN = [
    "http://events.test",
    "HTTP://EVENTS.TEST",
    "http://10.0.0.1",
    "http://0.0.0.0",
    "http://localhost.test",
    "http://127.0.0.1.test",
    "http://2130706433",
]


@pytest.mark.parametrize("base_url", PLAIN)
@pytest.mark.parametrize(
    "secret",
    [{"token": SECRET}, {"headers": {"authorization": SECRET}}, {"headers": {"Cookie": SECRET}}],
)
def test_a_token_goes_over_plain_http_to_this_machine_only(base_url: str, secret: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="allow_plain_http") as refused:
        EventClient(base_url, **secret)
    assert SECRET not in str(refused.value)
    EventClient(base_url, **secret, options=ClientOptions(allow_plain_http=True))
    EventClient(base_url)


@pytest.mark.parametrize("base_url", [*LOOPBACK, "https://events.test"])
def test_elsewhere_a_token_is_taken(base_url: str) -> None:
    assert endpoint(base_url, token=SECRET).headers["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(endpoint(base_url, token=SECRET)) + repr(EventClient(base_url, token=SECRET))


# -- headers -----------------------------------------------------------------------------------


def test_headers_of_the_caller_come_on_top() -> None:
    told = endpoint(
        "http://localhost",
        token="t",
        headers={"x-extra": "1", "AUTHORIZATION": "Basic x", "user-agent": "me"},
    )
    assert told.headers["x-extra"] == "1"
    assert told.headers["AUTHORIZATION"] == "Basic x"
    assert "Authorization" not in told.headers
    assert re.fullmatch(r"eventclient/\S+ python-\S+ \w+ \(\w+\) me", told.headers["User-Agent"])


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n", "ä", 5])
def test_what_is_no_header_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="header name"):
        EventClient("http://localhost", headers={name: "x"})


@pytest.mark.parametrize("value", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET}\x00", f"{SECRET}\n", 5, None])
def test_what_no_header_can_carry_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="x-extra") as refused:
        EventClient("http://localhost", headers={"x-extra": value})
    assert SECRET not in str(refused.value)
    if isinstance(value, str):
        with pytest.raises(ConfigurationError) as refused:
            EventClient("http://localhost", token=value)
        assert SECRET not in str(refused.value)


async def test_what_every_post_carries() -> None:
    async with stage(Honest()) as it:
        await it.client.create_batch("r", steps(2))
        (request,) = it.server.requests
    assert request.method == "POST"
    assert request.headers["Content-Type"] == "application/octet-stream"
    assert request.headers["Accept"] == "*/*"
    assert request.headers["X-Request-Time"] == "1767225600000"
    assert request.headers["User-Agent"].startswith("eventclient/")
    assert "Authorization" not in request.headers


# -- segments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("wrun_a/b c", "wrun_a%2Fb%20c"),
        ("a%2Fb", "a%252Fb"),
        ("ü?#&=+", "%C3%BC%3F%23%26%3D%2B"),
        ("-_.!~*'()", "-_.!~*'()"),
        ("...", "..."),
        ("a\nb", "a%0Ab"),
    ],
)
async def test_odd_ids_are_one_segment(value: str, escaped: str) -> None:
    assert segment(value, "run_id") == escaped
    async with stage(Honest()) as it:
        await it.client.create_batch(value, steps(2))
        await it.client.create(value, event("step_created"))
        assert [request.raw_path for request in it.server.requests] == [
            f"/api/v4/runs/{escaped}/events/batch",
            f"/api/v4/runs/{escaped}/events/step_created",
        ]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text not in (".", ".."))
)
def test_a_segment_holds_nothing_that_ends_it(value: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9\-_.!~*'()]|%[0-9A-F]{2})+", segment(value, "run_id"))


@pytest.mark.parametrize("value", ["", ".", "..", "\ud800", None, 5, b"r"])
async def test_ids_that_fit_no_path_are_refused(value: Any) -> None:
    async with stage([log_reply(b"")]) as it:
        for call in (
            it.client.create(value, event("step_created")),
            it.client.create_batch(value, steps(2)),
            it.client.read_log(value),
            it.client.get_event(value, "evnt_1"),
            it.client.writer().create(value, event("step_created")),
        ):
            with pytest.raises(InvalidEventError) as refused:
                await call
            assert refused.value.field == "run_id"
        with pytest.raises(InvalidEventError) as refused:
            await it.client.get_event("r", value)
        assert refused.value.field == "event_id"
        assert it.server.connections == 0
