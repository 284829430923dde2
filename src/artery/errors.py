"""Every error that Artery raises on purpose.

ArteryError
├── BadInput            the caller's mistake; saying it again will not help
│   ├── BadEvent        an event that the codec refuses
│   ├── BadSetting      a setting that is unknown or cannot be used
│   ├── NotFound        something named that is not there
│   └── UnknownChannel  a channel or market that nothing serves
├── NotAllowed          no key or a wrong key
│   └── ForbiddenScope  a key without the scope that is needed
├── TooMuch             a limit was reached; the message names it
├── Fenced              a newer leader has written; this one must stop
├── PositionLost        the position asked for has been trimmed away
├── Unavailable         a part is away for the moment (temporary)
└── CannotStart         this machine lacks something; the message says what to do

`code` is stable and meant for programs; the message is one sentence for people.
`temporary` says whether trying the same again later may succeed.
"""


class ArteryError(Exception):
    """The root: one sentence for people, a stable code for programs."""

    code = "internal"
    temporary = False


class BadInput(ArteryError):
    code = "bad_request"


class BadEvent(BadInput):
    code = "bad_event"


class BadSetting(BadInput):
    code = "bad_setting"


class NotFound(BadInput):
    code = "not_found"


class UnknownChannel(BadInput):
    code = "unknown_channel"


class NotAllowed(ArteryError):
    code = "unauthenticated"


class ForbiddenScope(NotAllowed):
    code = "forbidden_scope"


class TooMuch(ArteryError):
    """`wait_s` is how long to wait before the same is worth trying again."""

    code = "rate_limited"
    temporary = True

    def __init__(self, message: str, wait_s: float = 1.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Fenced(ArteryError):
    code = "fenced"


class PositionLost(ArteryError):
    """`first` is where to go on: the position just before the oldest entry that can still be read."""

    code = "position_lost"

    def __init__(self, message: str, first: str = "0") -> None:
        super().__init__(message)
        self.first = first


class Unavailable(ArteryError):
    code = "unavailable"
    temporary = True


class CannotStart(ArteryError):
    code = "cannot_start"
