"""Where requests go and the headers they all carry.

Source: `@workflow/world-vercel` 5.0.0-beta.50 (base URLs, paths, escaping, headers).
"""

from __future__ import annotations

import ipaddress
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import quote, urlencode

from yarl import URL

from eventclient.errors import ConfigurationError, InvalidEventError
from eventclient.wire import spec

from . import environment

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_UNREADABLE_IN_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# What JavaScript's encodeURIComponent leaves as it is, beside letters and digits.
_PATH_SAFE = "-_.!~*'()"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's base URL and the constant headers. The headers hold the token, so they are not shown."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)

    def url(self, path: str, query: Mapping[str, str] | None = None) -> URL:
        """The URL of an already escaped `path` under the base, with a form-escaped `query`."""
        text = self.base_url + path
        if query:
            text += "?" + urlencode(query, safe="*").replace("~", "%7E")
        return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> URL:
    # A URL keeps what it has worked out about itself, and a run's writes all go to the same few.
    return URL(text, encoded=True)


def segment(value: object, field_name: str) -> str:
    """`value` escaped for use as one segment of a path.

    Raises:
        InvalidEventError: it is no text, or text no path can carry as one segment.
    """
    if not isinstance(value, str) or not value:
        raise InvalidEventError("must be a text that is not empty", field=field_name)
    if value in (".", ".."):
        raise InvalidEventError("must not be a dot segment", field=field_name)
    try:
        return quote(value, safe=_PATH_SAFE)
    except UnicodeEncodeError:
        raise InvalidEventError("holds a lone surrogate", field=field_name) from None


def direct_endpoint(
    base_url: str | None,
    *,
    token: str | None,
    headers: Mapping[str, str] | None,
    allow_plain_http: bool,
) -> Endpoint:
    """The endpoint of a server given by its origin, or by the environment when `base_url` is None.

    Raises:
        ConfigurationError: no server is named, or its address or the headers cannot be used.
    """
    origin = base_url if base_url is not None else environment.read(environment.SERVER_URL)
    if origin is None:
        raise ConfigurationError(
            "no server is named: give EventClient a base_url, or set the environment variable"
            f" {environment.SERVER_URL}"
        )
    url = _checked_url(origin, "base_url" if base_url is not None else environment.SERVER_URL)
    return _endpoint(url.rstrip("/") + "/api", {}, token, headers, allow_plain_http)


def project_endpoint(
    config: environment.ProjectConfig,
    *,
    headers: Mapping[str, str] | None,
    allow_plain_http: bool,
) -> Endpoint:
    """The endpoint the environment describes: the platform's proxy when it names project and team.

    Raises:
        ConfigurationError: the proxy has no token, or an address cannot be used.
    """
    extra: dict[str, str] = {}
    token = config.token
    if config.configured:
        extra["x-vercel-environment"] = config.environment or "production"
    if config.project_id:
        extra["x-vercel-project-id"] = config.project_id
    if config.team_id:
        extra["x-vercel-team-id"] = config.team_id
    if config.limit_overrides:
        extra["x-workflow-test-limit-overrides"] = config.limit_overrides
    if config.proxied:
        base = _checked_url(config.backend_url or environment.DEFAULT_BACKEND_URL, environment.BACKEND_URL)
        if token is None:
            raise ConfigurationError(f"the proxy needs a token: set {environment.AUTH_TOKEN}")
        if config.server_url:
            extra["x-vercel-workflow-api-url"] = config.server_url
    else:
        origin = config.server_url or environment.DEFAULT_SERVER_URL
        base = _checked_url(origin, environment.SERVER_URL).rstrip("/") + "/api"
        token = token or config.oidc_token
        if config.oidc_token:
            extra["x-vercel-trusted-oidc-idp-token"] = config.oidc_token
    return _endpoint(base, extra, token, headers, allow_plain_http, config.deployment_id)


def _checked_url(text: str, name: str) -> str:
    try:
        url = URL(text)
        port_is_valid = url.port is None or 0 < url.port < 65536
    except (ValueError, TypeError):
        raise ConfigurationError(f"{name} is no URL") from None
    if url.scheme not in ("http", "https") or not url.host or not port_is_valid:
        raise ConfigurationError(f"{name} must be an http or https URL such as http://127.0.0.1:4437")
    if url.user is not None or url.password is not None:
        raise ConfigurationError(f"{name} must hold no user name or password: give a token instead")
    if url.query_string or url.fragment:
        raise ConfigurationError(f"{name} must have no query and no fragment")
    return str(url)


def _endpoint(
    base_url: str,
    extra: Mapping[str, str],
    token: str | None,
    headers: Mapping[str, str] | None,
    allow_plain_http: bool,
    deployment_id: str | None = None,
) -> Endpoint:
    merged = {"User-Agent": _user_agent(deployment_id), **extra}
    if token is not None:
        merged["Authorization"] = f"Bearer {token}"
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {name!r} is no header name")
        if name.lower() == spec.HEADER_KEY.lower():
            raise ConfigurationError(
                f"headers: {name} names one request, not all of them: see ClientOptions(mint_key=...)"
            )
        if name.lower() == "user-agent":
            merged["User-Agent"] += f" {value}"
        else:
            merged = {key: held for key, held in merged.items() if key.lower() != name.lower()}
            merged[name] = value
    for name, value in merged.items():
        if not isinstance(value, str) or _UNREADABLE_IN_HEADER.search(value):
            raise ConfigurationError(f"the value of header {name} is no text a header can carry")
    secret = any(name.lower() in _SECRET_HEADERS for name in merged)
    if secret and not allow_plain_http and base_url.startswith("http:") and not _is_loopback(base_url):
        raise ConfigurationError(
            "a token would go over plain http to a host that is not this machine: use https, or say"
            " ClientOptions(allow_plain_http=True)"
        )
    return Endpoint(base_url, merged)


_SECRET_HEADERS = frozenset({"authorization", "x-vercel-trusted-oidc-idp-token", "cookie"})


def _is_loopback(base_url: str) -> bool:
    host = URL(base_url).host or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _user_agent(deployment_id: str | None) -> str:
    try:
        own = version("eventclient")
    except PackageNotFoundError:
        own = "0"
    system = f"python-{platform.python_version()} {platform.system().lower()} ({platform.machine()})"
    return f"eventclient/{own} {system}" + (f" {deployment_id}" if deployment_id else "")
