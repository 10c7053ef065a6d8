"""Tokens: who may ask, and whose memory is meant.

A token is shown once, when it is made; the store keeps a digest of it. It fixes
whose memory it opens, and what a request says about that can only narrow it (P46).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidScope, NotPermitted, RecordNotFound
from agentmem.base.protocols import Clock
from agentmem.base.time import SystemClock
from agentmem.base.types import Scope
from agentmem.stores.side import StoredSettings
from agentmem.stores.values import NO_SCOPE

PREFIX = "amem"
SESSION_SECONDS = 12 * 3600
_SETTING = "server_tokens"
_NARROWING = ("agent_id", "run_id")
"""Naming one of these shows less than naming none; naming a user or project shows other things."""
_ID_BYTES, _SECRET_BYTES = 4, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token allows: the memory of `scope`, or anybody's for an admin."""

    id: str
    scope: Scope = NO_SCOPE
    admin: bool = False
    name: str = ""
    created_at: datetime | None = None

    def narrowed(self, asked: Scope) -> Scope:
        """The scope of a request that says `asked`; `NotPermitted` where it reaches further.

        What the token fixes may be repeated or left out. Agents and runs may be
        named where it fixes none; users and projects only by an admin.
        """
        found: dict[str, str | None] = {}
        for name in Scope.__slots__:
            own, wanted = getattr(self.scope, name), getattr(asked, name)
            if wanted is None or wanted == own:
                found[name] = own
            elif own is None and (self.admin or name in _NARROWING):
                found[name] = wanted
            else:
                raise NotPermitted(
                    f"This token does not open that {name}.",
                    remedy="Leave it out, or use a token that was made for it.",
                )
        return Scope(**found)

    def reader(self, scope: Scope) -> Scope | None:
        """Who reads as `scope`: for an admin who names nobody None, which is everybody."""
        return None if self.admin and scope == Scope() else scope

    def require_admin(self) -> None:
        """Refuse what concerns the whole store to tokens that open a part of it."""
        if not self.admin:
            raise NotPermitted(
                "This concerns the whole store.",
                remedy="Use a token made with `agentmem token make --admin`.",
            )

    def to_dict(self) -> dict[str, Any]:
        """The grant as JSON values; nothing in it opens anything."""
        return {
            "id": self.id,
            "name": self.name,
            "admin": self.admin,
            **self.scope.whose,
            "created_at": None if self.created_at is None else self.created_at.isoformat(),
        }


EVERYBODY = Grant(id="no-auth", admin=True, name="everybody")
"""Who asks where no tokens are asked for."""


class Tokens:
    """The tokens of one store, kept in it as digests; every process on it sees the same ones."""

    def __init__(self, settings: StoredSettings, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()

    def make(
        self, *, scope: Scope = NO_SCOPE, admin: bool = False, name: str = ""
    ) -> tuple[str, Grant]:
        """A new token, which nobody can read again, and what it allows."""
        require_text(name, "name")
        if not admin and scope == NO_SCOPE:
            raise InvalidScope(
                "scope", None, "is missing",
                remedy="Say whose memory it opens (user, project, agent), or make an admin's.",
            )  # fmt: skip
        grant = Grant(
            id=secrets.token_hex(_ID_BYTES),
            scope=scope,
            admin=admin,
            name=name,
            created_at=self._clock.now(),
        )
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        entry = {**grant.to_dict(), "digest": _digest(secret)}

        def add(was: str | None) -> str:
            return json.dumps({**_entries(was), grant.id: entry})

        self._settings.update(_SETTING, add)
        return f"{PREFIX}_{grant.id}_{secret}", grant

    def list(self) -> tuple[Grant, ...]:
        """What every token allows, oldest first."""
        return tuple(map(_grant, self._kept().values()))

    def revoke(self, token_id: str) -> Grant:
        """Let a token open nothing from now on."""
        gone: list[Grant] = []

        def take(was: str | None) -> str:
            entries = _entries(was)
            gone[:] = [_grant(entries.pop(token_id))] if token_id in entries else []
            return json.dumps(entries)

        self._settings.update(_SETTING, take)
        if not gone:
            raise RecordNotFound(token_id, what="token", seen_with="token list")
        return gone[0]

    def find(self, token: str) -> Grant | None:
        """What `token` allows, or `None`; how long it takes does not tell how wrong it is."""
        _, _, rest = token.partition(f"{PREFIX}_")
        token_id, _, secret = rest.partition("_")
        entry = self._kept().get(token_id)
        given = _digest(secret.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
        same = hmac.compare_digest(given, entry["digest"] if entry else "0" * len(given))
        return _grant(entry) if entry and same else None

    def _kept(self) -> dict[str, Any]:
        return _entries(self._settings.get(_SETTING))

    # -- sessions of the page: a cookie that names a token, signed and dated ---------------

    def session_of(self, grant: Grant, *, seconds: int = SESSION_SECONDS) -> str:
        """A session for who showed a token."""
        said = f"{grant.id}.{int(time.time()) + seconds}"
        return f"{said}.{self.signed('session', said)}"

    def in_session(self, session: str) -> Grant | None:
        """What a session allows: what its token does, while it is not revoked or too old."""
        said, _, signature = session.rpartition(".")
        token_id, _, until = said.partition(".")
        if not until.isdecimal() or not self.is_signed("session", said, signature):
            return None
        entry = self._kept().get(token_id) if int(until) >= time.time() else None
        return _grant(entry) if entry else None

    def signed(self, purpose: str, text: str) -> str:
        """A signature of `text` that only who holds the store can make."""
        key = hashlib.blake2b(self._settings.secret(), person=b"agentmem-server").digest()
        return hmac.new(key, f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()

    def is_signed(self, purpose: str, text: str, signature: str) -> bool:
        """Whether `signature` is that of `text`."""
        return hmac.compare_digest(self.signed(purpose, text).encode(), signature.encode())


def _digest(secret: str) -> str:
    # 256 random bits: nothing to guess that a slow hash would protect.
    return hashlib.sha256(secret.encode()).hexdigest()


def _entries(written: str | None) -> dict[str, Any]:
    found = json.loads(written) if written else {}
    return found if isinstance(found, dict) else {}


def _grant(entry: dict[str, Any]) -> Grant:
    at = entry.get("created_at")
    return Grant(
        id=entry["id"],
        name=entry["name"],
        admin=entry["admin"],
        scope=Scope(**{name: entry.get(name) for name in Scope.__slots__}),
        created_at=datetime.fromisoformat(at) if at else None,
    )
