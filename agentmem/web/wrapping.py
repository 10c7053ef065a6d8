"""Any search function, with memory beside what it finds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentmem.core.citations import Citation
from agentmem.errors import InvalidInput
from agentmem.threads import awaited, is_async
from agentmem.types import Hit
from agentmem.web.callables import CallableSearch
from agentmem.web.chain import SearchChain
from agentmem.web.enhanced import enhanced_search
from agentmem.web.result import EnhancedSearchResult
from agentmem.web.running import run_anywhere

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

F = TypeVar("F", bound=Callable[..., Any])

QUERY_NAMES = ("query", "q", "keywords", "text", "search_query", "question")


class EnhancedList(list[Any]):
    """The search's own results, unchanged, with what memory adds beside them."""

    enhanced: EnhancedSearchResult | None = None

    @property
    def memory_results(self) -> tuple[Hit, ...]:
        return self.enhanced.memory_results if self.enhanced else ()

    @property
    def answer(self) -> str:
        return self.enhanced.answer if self.enhanced else ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        return self.enhanced.citations if self.enhanced else ()

    @property
    def conflict_disclaimer(self) -> str:
        return self.enhanced.conflict_disclaimer if self.enhanced else ""

    @property
    def degradations(self) -> tuple[str, ...]:
        return self.enhanced.degradations if self.enhanced else ()


class EnhancedDict(dict[str, Any]):
    """The search's own answer, unchanged, with what memory adds beside it."""

    enhanced: EnhancedSearchResult | None = None
    memory_results = EnhancedList.memory_results
    answer = EnhancedList.answer
    citations = EnhancedList.citations
    conflict_disclaimer = EnhancedList.conflict_disclaimer
    degradations = EnhancedList.degradations


class EnhancedText(str):
    """The search's own text, unchanged, with what memory adds beside it."""

    enhanced: EnhancedSearchResult | None = None
    memory_results = EnhancedList.memory_results
    answer = EnhancedList.answer
    citations = EnhancedList.citations
    conflict_disclaimer = EnhancedList.conflict_disclaimer
    degradations = EnhancedList.degradations


def wrap_search(memory: MemoryManager, fn: F, *, allow_private: bool = False, **options: Any) -> F:
    """`fn` with memory: the same parameters, sync or async, and the same results.

    What it returns is a list (a dict, a text) equal to what `fn` returned that also
    has `.memory_results`, `.answer`, `.citations`, `.conflict_disclaimer`,
    `.degradations` and all of it as `.enhanced`. What `fn` raises is raised.
    Memory failing changes nothing about the results. A call may say
    `memory_scope=`; `options` are those of `enhanced_search`. Addresses in a
    private network are shown in citations only with `allow_private`.
    """
    if not callable(fn):
        raise InvalidInput("fn", fn, "cannot be called", remedy="Pass a search function.")
    settings = dict(options)
    own_scope = settings.pop("scope", None)
    name = str(getattr(fn, "__name__", "") or type(fn).__name__)

    async def enhance(query: str, found: Any, scope: Any) -> EnhancedSearchResult | None:
        rows = found if isinstance(found, Mapping) else list(_rows_of(found))

        web = CallableSearch(lambda _: rows, name=name, allow_private=allow_private)
        try:
            return await enhanced_search(
                query,
                memory=memory,
                web=SearchChain([web], attempts=1),
                scope=scope,
                **settings,
            )
        except InvalidInput:
            return None  # an empty query: the function may mean something by it

    if is_async(fn):

        @functools.wraps(fn)
        async def awaiting(*args: Any, memory_scope: Any = None, **kwargs: Any) -> Any:
            found = await awaited(fn(*args, **kwargs))
            kept = _as_enhanced(found)
            if kept is None:
                return found
            query = _query_of(fn, args, kwargs)
            kept.enhanced = await enhance(query, kept, memory_scope or own_scope)
            return kept

        return cast("F", awaiting)

    @functools.wraps(fn)
    def calling(*args: Any, memory_scope: Any = None, **kwargs: Any) -> Any:
        found = fn(*args, **kwargs)
        kept = _as_enhanced(found)
        if kept is None:
            return found
        query = _query_of(fn, args, kwargs)
        kept.enhanced = run_anywhere(lambda: enhance(query, kept, memory_scope or own_scope))
        return kept

    return cast("F", calling)


def _rows_of(found: Any) -> Iterable[Any]:
    return [str(found)] if isinstance(found, str) else found


def _as_enhanced(found: Any) -> EnhancedList | EnhancedDict | EnhancedText | None:
    """`found` as something that can carry more; `None` when it is no list, dict or text."""
    if isinstance(found, Mapping):
        return EnhancedDict(found)
    if isinstance(found, str):
        return EnhancedText(found)
    if isinstance(found, Iterable) and not isinstance(found, bytes):
        return EnhancedList(found)
    return EnhancedList() if found is None else None


def _query_of(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    try:
        bound = inspect.signature(fn).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {}
    kwargs = {**bound, **kwargs}
    named = [kwargs[name] for name in QUERY_NAMES if isinstance(kwargs.get(name), str)]
    texts = [value for value in args if isinstance(value, str)]
    return next(iter((*named, *texts)), "")
