"""Faults on request: a script that says which requests are to meet which misfortune.

A script is a TOML file. The same script meets the same sequence of requests with the same faults::

    seed = 7                    # of the rules with a probability; 0 when left out

    [[rule]]                    # the second and third batch for a step of any run are throttled
    route = "batch"             # name of a route, or a list of names
    event_type = "step_created" # a type, or a list; the request posts at least one of them
    run = "wrun_*"              # run id, with * and ? and [..]
    nth = [2, 3]                # which of the requests that match; a number or a list
    fault = "throttle"
    retry_after = "1"

What selects, all of it optional and all of it to hold: `route`, `event_type`, `run`; of the requests that
match these, `nth` (from 1), `every` (each n-th), `probability` (0..1), and at most `times` in all. Without
`route` a rule is about every request under ``/api``. `name` is for the report.

What happens, with the keys of each (``*`` has to be given):

* ``refuse``: `status`\\* (300..599), `code`, `message`, `headers`, `hex` (a body in place of the JSON)
* ``throttle``: a 429; `retry_after` (any text), `code`, `message`
* ``challenge``: what a firewall answers; `status` (429 or 403), `retry_after`
* ``delay``: `seconds`\\*, then the request goes on
* ``drop``: no answer; `reset` (default true: a TCP reset; false: a plain end)
* ``cut``: `at_bytes`\\* of the answer's body, then the end; below zero they count from the end of the body
* ``garbage``: a 200 that is no answer; `content` (``text``, ``empty``, ``wrong``: CBOR of something else,
  ``short``: the answer to the request, handled, without its last result or its end frame) or `hex`
* ``twice``: the request is handled twice; `answer` (``second``, the default, or ``first``) is given
* ``stall``: no answer; the end after `seconds` (default 3600), or when the caller or the server goes

`commit` says whether the request is handled all the same, its answer being lost: with ``refuse``, ``delay``
(after, not before), ``drop``, ``garbage`` and ``stall``. It is false when left out.

Every rule counts the requests that match it and draws from chances of its own, whatever other rules do. If
several rules fire at one request, delays are carried out in turn and the first other fault decides; rules
behind it are counted as overtaken.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)

from eventclient.errors import ConfigurationError
from eventclient.model.event_specs import EVENT_SPECS


def _as_tuple(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str | int) else value


def _known_types(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in EVENT_SPECS:
            raise ValueError(f"{name!r} is no event type; the types are {', '.join(sorted(EVENT_SPECS))}")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Position = Annotated[int, Field(ge=1)]
Hex = Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2})*$")]
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderText = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]
Seconds = Annotated[float, Field(ge=0, le=86400)]


class Rule(BaseModel):
    """Which requests meet a fault; the subclasses say what fault."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str | None = None
    route: Names | None = None
    event_type: Annotated[Names, AfterValidator(_known_types)] | None = None
    run: str | None = None
    nth: Annotated[tuple[Position, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    every: Position | None = None
    times: Position | None = None
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class Lossy(Rule):
    """A fault that keeps the answer from the caller.

    Attributes:
        commit: the request is handled all the same.
    """

    commit: bool = False


class Refuse(Lossy):
    fault: Literal["refuse"]
    status: Annotated[int, Field(ge=300, le=599)]
    code: str = "injected"
    message: str = "an injected refusal"
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict)
    hex: Hex | None = None


class Throttle(Rule):
    fault: Literal["throttle"]
    retry_after: HeaderText | None = None
    code: str = "throttled"
    message: str = "an injected throttle"


class Challenge(Rule):
    fault: Literal["challenge"]
    status: Literal[429, 403] = 429
    retry_after: HeaderText | None = None


class Delay(Lossy):
    fault: Literal["delay"]
    seconds: Seconds


class Drop(Lossy):
    fault: Literal["drop"]
    reset: bool = True


class Cut(Rule):
    fault: Literal["cut"]
    at_bytes: int


class Garbage(Lossy):
    fault: Literal["garbage"]
    content: Literal["text", "empty", "wrong", "short"] = "text"
    hex: Hex | None = None


class Twice(Rule):
    fault: Literal["twice"]
    answer: Literal["first", "second"] = "second"


class Stall(Lossy):
    fault: Literal["stall"]
    seconds: Seconds = 3600.0


AnyRule = Refuse | Throttle | Challenge | Delay | Drop | Cut | Garbage | Twice | Stall
KINDS: Final[Mapping[str, type[Rule]]] = {
    "refuse": Refuse,
    "throttle": Throttle,
    "challenge": Challenge,
    "delay": Delay,
    "drop": Drop,
    "cut": Cut,
    "garbage": Garbage,
    "twice": Twice,
    "stall": Stall,
}


class FaultScript(BaseModel):
    """A script; the docstring of the module describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seed: int = 0
    rule: list[Annotated[AnyRule, Field(discriminator="fault")]] = Field(default_factory=list)
    _source: str = PrivateAttr("script")

    @classmethod
    def load(cls, path: Path) -> Self:
        """The script in a file.

        Raises:
            ConfigurationError: it cannot be read, or is none; names the file, the rule, the key and what
                is allowed.
        """
        try:
            return cls.parse(path.read_text(encoding="utf-8"), source=str(path))
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path}: is not UTF-8") from error

    @classmethod
    def parse(cls, text: str, *, source: str = "script") -> Self:
        """The script that `text` is; `source` is what errors call it.

        Raises:
            ConfigurationError: as `load`.
        """
        try:
            script = cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{source}: {error}") from error
        except ValidationError as error:
            raise ConfigurationError(f"{source}: {_reason(error)}") from error
        script._source = source
        return script

    def check_routes(self, names: Collection[str]) -> None:
        """Whether every rule is about routes there are.

        Raises:
            ConfigurationError: names the file, the rule and the routes.
        """
        for number, rule in enumerate(self.rule, 1):
            for name in rule.route or ():
                if name not in names:
                    known = ", ".join(sorted(names))
                    message = f"{self._source}: rule {number}: route: {name!r} is none of {known}"
                    raise ConfigurationError(message)


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    kind, place = first["type"], list(first["loc"])
    where, keys = "", FaultScript.model_fields
    if len(place) > 1 and place[0] == "rule":
        where, place = f"rule {int(place[1]) + 1}: ", place[2:]
        if place and place[0] in KINDS:
            keys = KINDS[str(place.pop(0))].model_fields
        else:
            place = ["fault"]
    key = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"{where}{key}: is unknown; the keys are {', '.join(keys)}"
    if kind.startswith("union_tag"):
        return f"{where}fault: is none of {', '.join(KINDS)}"
    why = "is missing" if kind == "missing" else first["msg"].removeprefix("Value error, ")
    return f"{where}{key}: {why}"
