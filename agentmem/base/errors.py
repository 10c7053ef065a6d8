"""Every error and warning agentmem raises.

    AgentMemError
    ├── InvalidInput (ValueError)             a value that cannot be used, with the remedy
    │   ├── InvalidText                       not a string, or one that is not Unicode text
    │   ├── InvalidNumber                     negative, NaN, infinite or of the wrong type
    │   ├── InvalidMessage                    a chat message without role, content or ids
    │   ├── InvalidScope                      a scope or visibility that does not fit
    │   │   └── NamelessCaller                nobody is named though `strict_scope` wants it
    │   └── InvalidFilter                     a search filter that cannot be read
    ├── BudgetError
    │   ├── FixedContentTooLarge (ValueError) what must be sent is larger than the window
    │   └── RequestTooLong (ValueError)       a model refused the request, packed smaller too
    ├── BlockError
    │   ├── RoleRefused (ValueError)          a role the reference message may not have
    │   └── MalformedBlock (ValueError)       text that is not one of our blocks
    ├── StoreError
    │   ├── StoreClosed                       used after close()
    │   ├── StoreBusy (TimeoutError)          another writer held the file for too long
    │   ├── StoreUnavailable (ConnectionError) the database cannot be reached now
    │   ├── StoreFull (OSError)               no room left on the device
    │   ├── StoreReadOnly (PermissionError)   the file or its folder cannot be written
    │   ├── StoreReplaced                     the file was deleted, moved or replaced while open
    │   ├── StoreCorrupt                      the file is damaged
    │   │   ├── StaleLog                      the log beside it belongs to another file
    │   │   └── IncompleteExport              written without what is damaged
    │   ├── StoreTooNew                       written by a newer version of agentmem
    │   ├── NotAStore                         the file is something else
    │   ├── RecordNotFound (LookupError)      no such id in this scope
    │   ├── SnapshotNotFound (LookupError)    no trace of that message
    │   ├── DuplicateRecord (ValueError)      that id is taken
    │   ├── ChangedMeanwhile                  a memory is no longer what a plan was made for
    │   └── AlreadyUndone (ValueError)        a run that was taken back before
    ├── EmbedderError
    │   ├── EmbedderUnavailable               weights or package cannot be had
    │   ├── EmbedderFailed                    it was asked and did not answer
    │   └── BadVector (ValueError)            wrong dimensions, NaN or infinite
    ├── FileRefused (ValueError)              binary, too large, or not a file
    ├── FileUnreadable (OSError)              a file that cannot be opened, or is damaged
    ├── FetchRefused (ValueError)             an address that may not be fetched
    ├── FetchFailed (OSError)                 no usable answer came from an address
    ├── WebSearchError                        the web cannot be searched now
    │   ├── SearchFailed                      a search service was asked and did not answer
    │   └── RateLimited                       a search service wants to be left alone for a while
    ├── TimedOut (TimeoutError)               a call took longer than it may
    ├── RerankerError
    │   ├── RerankerUnavailable               its model folder cannot be read
    │   └── RerankerFailed                    it was asked and gave no usable scores
    ├── RequestError                          a request to the server that is not answered
    │   ├── MalformedRequest (ValueError)     no JSON, or not what the call takes
    │   ├── NotAuthenticated (PermissionError) no token, or none that opens anything
    │   ├── NotPermitted (PermissionError)    a token that does not open this
    │   ├── NoSuchRoute (LookupError)         nothing is served at that address
    │   ├── MethodRefused                     something else is served there
    │   ├── RequestTooLarge (ValueError)      more bytes than are read
    │   ├── RequestTooSlow (TimeoutError)     a body that does not arrive
    │   ├── TooManyRequests                   more of them than are answered
    │   ├── UpstreamFailed (ConnectionError)  the model's provider did not answer
    │   └── ServerFailed                      something went wrong inside
    └── MissingExtra (ImportError)            an optional package is not installed

    AgentMemWarning (UserWarning)
    ├── UnknownModelWarning                   a model whose window had to be assumed
    ├── ApproximateCountWarning               tokens were estimated, not counted
    └── MediaWarning                          media that could not be read

Errors carry the value they are about and what to do; they never log.
"""

from __future__ import annotations

SHOWN_CHARACTERS = 60
NAME_THE_USER = (
    'Pass user_id=…, or scope={"user_id": …} to a wrapped client, whose calls may also say '
    'user=, safety_identifier= or metadata={"user_id": …}.'
)


def shown(value: object) -> str:
    """`value` as it may stand in a message: one line, printable ASCII, cut when long."""
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        return f"{value[:SHOWN_CHARACTERS]!a}… ({len(value):,} characters)"
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - a huge int, a value nested too deeply, a foreign __repr__
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 2 * SHOWN_CHARACTERS else text[: 2 * SHOWN_CHARACTERS] + "…"


class AgentMemError(Exception):
    """Root of all errors; `remedy` says what the caller can do."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.remedy = remedy


class InvalidInput(AgentMemError, ValueError):
    """`name` held `value`, which cannot be used because of `problem`."""

    def __init__(self, name: str, value: object, problem: str, *, remedy: str = "") -> None:
        super().__init__(f"{name} {problem}: {shown(value)}.", remedy=remedy)
        self.name = name
        self.value = value
        self.problem = problem


class InvalidText(InvalidInput):
    """Not a string, or a string that is not Unicode text."""


class InvalidNumber(InvalidInput):
    """A number that is negative, NaN, infinite, or not a number."""


class InvalidMessage(InvalidInput):
    """A chat message that no provider would take."""


class InvalidScope(InvalidInput):
    """A scope or visibility that does not fit together."""


class NamelessCaller(InvalidScope):
    """A turn that names no user, where `strict_scope` refuses such turns."""

    def __init__(self) -> None:
        super().__init__(
            "user_id", None, "is not said and strict_scope=True wants it", remedy=NAME_THE_USER
        )


class InvalidFilter(InvalidInput):
    """A search filter that cannot be read."""


class BudgetError(AgentMemError):
    """The budget does not work out."""


class FixedContentTooLarge(BudgetError, ValueError):
    """The items that may not be dropped need more tokens than there are."""

    def __init__(self, *, needed_tokens: int, limit_tokens: int, items: tuple[str, ...]) -> None:
        listed = ", ".join(items[:5]) + (", …" if len(items) > 5 else "")
        super().__init__(
            f"Fixed content needs {needed_tokens:,} tokens, {limit_tokens:,} are available "
            f"({listed}).",
            remedy="Shorten the system prompt or the current message, lower the reserve, "
            "or use a model with a larger window.",
        )
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens
        self.items = items


class RequestTooLong(BudgetError, ValueError):
    """A model refused a request as too long, and again when it was packed smaller."""

    def __init__(self, model: str, *, estimated_tokens: int, said: str) -> None:
        super().__init__(
            f"{model or 'The model'} refuses the request as too long, by our count "
            f"{estimated_tokens:,} tokens: {said}",
            remedy="Shorten the system prompt, the question or the tools, "
            "or use a model with a larger window.",
        )
        self.model = model
        self.estimated_tokens = estimated_tokens


class BlockError(AgentMemError):
    """The reference block cannot be written or read."""


class RoleRefused(BlockError, ValueError):
    """The reference message may not have this role."""

    def __init__(self, role: object) -> None:
        super().__init__(
            f"The reference message cannot have the role {shown(role)}.",
            remedy="Use role='assistant' (the default) or role='user': untrusted data must "
            "never speak as the system.",
        )
        self.role = role


class MalformedBlock(BlockError, ValueError):
    """Text that is not one of our blocks, or one that was altered."""


class StoreError(AgentMemError):
    """The store cannot do what was asked."""


class StoreClosed(StoreError):
    """The store was used after `close()`."""


class StoreBusy(StoreError, TimeoutError):
    """Another writer held the store for longer than the busy timeout."""


class StoreUnavailable(StoreError, ConnectionError):
    """The database server cannot be reached, or went away; the next call tries again."""


class StoreFull(StoreError, OSError):
    """The device has no room left; what was acknowledged before is safe."""


class StoreReadOnly(StoreError, PermissionError):
    """The file or its folder cannot be written."""


class StoreReplaced(StoreError):
    """The open store's file or log was deleted, moved or replaced; the write did not count."""


class StoreCorrupt(StoreError):
    """The store's file is damaged."""


class StaleLog(StoreCorrupt):
    """The log beside the store was not written for this file, as after copying a backup over it."""


class IncompleteExport(StoreCorrupt):
    """Everything that can be read was exported; `missing` names each thing that cannot."""

    def __init__(self, path: str, *, exported: int, missing: tuple[str, ...]) -> None:
        more = f"; and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        super().__init__(
            f"{path} holds the {exported:,} memories that can be read, and is not complete: "
            f"{'; '.join(missing[:10])}{more}.",
            remedy="Restore a backup for the rest; `agentmem doctor` shows what is damaged.",
        )
        self.exported = exported
        self.missing = missing


class StoreTooNew(StoreError):
    """The file was written by a newer version; it was left untouched."""


class NotAStore(StoreError):
    """The file exists and is not an agentmem store; it was left untouched."""


class RecordNotFound(StoreError, LookupError):
    """No memory, or other `what`, with this id can be seen from this scope."""

    def __init__(
        self, record_id: str, *, what: str = "memory", seen_with: str = "list", remedy: str = ""
    ) -> None:
        check = f"Check the id with `agentmem {seen_with}`, and the user it belongs to."
        super().__init__(f"No {what} {shown(record_id)} in this scope.", remedy=remedy or check)
        self.record_id = record_id


class SnapshotNotFound(StoreError, LookupError):
    """No trace of this message can be seen from this scope."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"No context {shown(wanted)} was recorded in this scope.",
            remedy="See what is there with `agentmem monitor`; old ones are removed with time.",
        )
        self.wanted = wanted


class DuplicateRecord(StoreError, ValueError):
    """A memory with this id exists already."""

    def __init__(self, record_id: str) -> None:
        super().__init__(
            f"A memory {shown(record_id)} exists already.",
            remedy="Leave the id out to get a new one, or use update().",
        )
        self.record_id = record_id


class ChangedMeanwhile(StoreError):
    """Somebody changed `record_id` between planning and applying; nothing was written."""

    def __init__(self, record_id: str) -> None:
        super().__init__(
            f"The memory {shown(record_id)} was changed meanwhile.", remedy="Plan again."
        )
        self.record_id = record_id


class AlreadyUndone(StoreError, ValueError):
    """The run `journal_id` was taken back before."""

    def __init__(self, journal_id: str) -> None:
        super().__init__(
            f"The run {shown(journal_id)} was undone already.", remedy="There is nothing to do."
        )
        self.journal_id = journal_id


class EmbedderError(AgentMemError):
    """Vectors cannot be had; search goes on with words."""


class EmbedderUnavailable(EmbedderError):
    """The embedder's package or weights are not there."""


class EmbedderFailed(EmbedderError):
    """The embedder was asked and raised or timed out."""


class BadVector(EmbedderError, ValueError):
    """A vector of the wrong size, or with NaN or infinity in it."""


class FileRefused(AgentMemError, ValueError):
    """`path` is nothing that can be remembered: binary, too large, or no file."""

    def __init__(self, path: object, problem: str, *, remedy: str = "") -> None:
        super().__init__(f"{shown(str(path))} {problem}.", remedy=remedy)
        self.path = path
        self.problem = problem


class FileUnreadable(AgentMemError, OSError):
    """`path` cannot be opened or is damaged."""

    def __init__(self, path: object, problem: str, *, remedy: str = "") -> None:
        super().__init__(f"{shown(str(path))} {problem}.", remedy=remedy)
        self.path = path
        self.problem = problem


class FetchRefused(AgentMemError, ValueError):
    """`url` may not be fetched, or led somewhere that may not be."""

    def __init__(self, url: str, problem: str, *, remedy: str = "") -> None:
        super().__init__(f"{shown(url)} is not fetched: {problem}.", remedy=remedy)
        self.url = url
        self.problem = problem


class FetchFailed(AgentMemError, OSError):
    """No usable answer came from `url`; `status` is the HTTP code if there was one."""

    def __init__(
        self, url: str, problem: str, *, status: int | None = None, remedy: str = ""
    ) -> None:
        super().__init__(f"{shown(url)} could not be fetched: {problem}.", remedy=remedy)
        self.url = url
        self.problem = problem
        self.status = status


class WebSearchError(AgentMemError):
    """The web cannot be searched now; memory still answers."""


class SearchFailed(WebSearchError):
    """A search service was asked and did not answer usefully."""


class RateLimited(WebSearchError):
    """A search service refused because it was asked too often."""

    def __init__(self, service: str, *, retry_after_seconds: float | None = None) -> None:
        wait = "" if retry_after_seconds is None else f" for {retry_after_seconds:g} seconds"
        super().__init__(
            f"{service} limits how often it may be asked.",
            remedy=f"Wait{wait}, or name a second search service.",
        )
        self.service = service
        self.retry_after_seconds = retry_after_seconds


class TimedOut(AgentMemError, TimeoutError):
    """A call took longer than it may."""


class RerankerError(AgentMemError):
    """The order cannot be judged again; search keeps its own."""


class RerankerUnavailable(RerankerError):
    """The re-ranker's model or tokenizer is not there, or cannot be read."""


class RerankerFailed(RerankerError):
    """The re-ranker was asked and raised, or gave something that is no score."""


class RequestError(AgentMemError):
    """A request to the server that is not answered."""


class MalformedRequest(RequestError, ValueError):
    """A request that cannot be read: no JSON, an unknown field, a wrong type."""


class NotAuthenticated(RequestError, PermissionError):
    """A request without a token that opens anything."""


class NotPermitted(RequestError, PermissionError):
    """A request for more than its token opens."""


class NoSuchRoute(RequestError, LookupError):
    """Nothing is served at this address."""


class MethodRefused(RequestError):
    """This address is there, for another method."""


class RequestTooLarge(RequestError, ValueError):
    """A body, or headers, of more bytes than are read."""


class RequestTooSlow(RequestError, TimeoutError):
    """A request whose body did not arrive in time."""


class TooManyRequests(RequestError):
    """More requests, or streams at once, than one token may have."""

    def __init__(self, message: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message, remedy=f"Wait {retry_after_seconds} s and ask again.")
        self.retry_after_seconds = retry_after_seconds


class UpstreamFailed(RequestError, ConnectionError):
    """The provider behind the proxy could not be reached, or broke off."""


class ServerFailed(RequestError):
    """Something went wrong inside; the log of the server says where."""


class MissingExtra(AgentMemError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}.",
            remedy=f"Install it with: pip install 'agentmem-loop[{extra}]'",
        )
        self.package = package
        self.extra = extra


class AgentMemWarning(UserWarning):
    """Root of all warnings."""


class UnknownModelWarning(AgentMemWarning):
    """The model is not in any table, so its window was assumed."""


class ApproximateCountWarning(AgentMemWarning):
    """No tokenizer could be had offline, so tokens are estimated."""


class MediaWarning(AgentMemWarning):
    """Media that could not be read; the default size was counted."""
