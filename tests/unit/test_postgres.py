"""What only a database has: tenants, roles, other machines, connections that break."""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import agentmem
from agentmem.base.errors import (
    AgentMemError,
    ChangedMeanwhile,
    InvalidInput,
    NotAStore,
    RecordNotFound,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from agentmem.base.filters import Selection
from agentmem.search.local import LocalSearch
from agentmem.search.postgres import PostgresSearch
from agentmem.stores import transfer
from agentmem.stores.journal import Revision
from agentmem.stores.postgres import connection
from agentmem.stores.postgres.schema import MIGRATIONS, ROLE, TABLES
from agentmem.stores.postgres.store import PostgresStore, split_dsn
from agentmem.stores.postgres.tables import digest
from agentmem.stores.postgres.transaction import Transaction
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Artifact, Link, SnapshotRecord, name_id
from agentmem.testing import HashEmbedder
from tests.servers.postgres import CannotStart, Server, fresh_tenant, postgres_store, shared_server
from tests.unit.postgres_worker import Deed, work
from tests.unit.store_samples import ANN, BOB, NOW, SPACE, entry, everything, fill

ALL = Selection(reader=ANN, deleted=True, superseded=True)


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with postgres_store() as made:
        yield made


@contextmanager
def own_server(**options: Any) -> Iterator[Server]:
    try:
        server = Server(**options)
    except CannotStart as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")
    with server:
        yield server


# ----------------------------------------------------------------------------
# Tenants.


def reads(store: PostgresStore) -> dict[str, Any]:
    """What every read path gives, as something that is false where it finds nothing."""
    rows = range(1, 100_000)
    search = PostgresSearch(store)

    def found(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except RecordNotFound:
            return None

    return {
        "get": found(lambda: store.get(ANN, "m5", deleted=True)),
        "row_of": found(lambda: store.row_of(ANN, "m5")),
        "history": found(lambda: store.history(ANN, "m1")),
        "get_many": store.get_many(ANN, ["m5", "m7"]),
        "get_rows": store.get_rows(ANN, rows),
        "scan": list(store.scan(ALL)),
        "select_rows": store.select_rows(ALL).tolist(),
        "count": store.count(ALL),
        "recent": store.recent(ALL, limit=5),
        "by url": store.search_by_source_url(ANN, "https://example.com/a"),
        "owners": store.visible_owners(ANN).tolist(),
        "texts": store.feed.texts(rows),
        "index rows": len(store.feed.index_rows()),
        "vectors": len(store.feed.vectors(SPACE)[0]),
        "missing": store.feed.missing_vectors(SPACE) and (),
        "seq": store.feed.seq(),
        "changes": store.feed.changes(0).items,
        "readable": len(store.feed.readable_rows()[0]),
        "taken": store.feed.taken(["m5"]),
        "embedders": store.feed.embedders(),
        "index file": store.feed.index_file("words.idx"),
        "setting": store.settings.get("color"),
        "jobs": sum(store.jobs.counts().values()),
        "failed": store.jobs.failed(),
        "snapshot": found(lambda: store.snapshots.get(None, "t1")),
        "snapshots": store.snapshots.list(None),
        "mentioning": store.snapshots.mentioning(None, "m5"),
        "shared": store.snapshots.shared(["t1"]),
        "artifacts": store.artifacts.list(ANN),
        "artifact": found(lambda: store.artifacts.get(ANN, "r1")),
        "links": store.links.all(ANN),
        "links of": found(lambda: store.links.of(ANN, "m5")),
        "among": store.links.among(ANN, ["m5", "m7"]),
        "contradictions": store.contradictions.all(ANN),
        "journal": store.journal.recent(ANN),
        "stats": store.upkeep.stats().chunks,
        "sources": store.upkeep.sources(),
        "everybody": store.upkeep.owners(),
        "whose": store.upkeep.owners("m5"),
        "users": store.upkeep.users(),
        "verify": sum(store.upkeep.verify().counts.values()),
        "to erase": found(lambda: store.to_erase(ANN, ["m5"])),
        "to erase all": store.to_erase_all(Selection(reader=ANN)),
        "speakers": search.speakers(ANN),
    }


def filled(store: PostgresStore) -> None:
    fill(store)
    revision = Revision(id="run", kind="test", added=(entry("added"),))
    store.journal.apply(ANN, revision, at=NOW)
    store.jobs.fail(store.jobs.enqueue("x", {}, at=NOW), "bad", retry_at=None)


@pytest.mark.parametrize("wrong", ["parameter", "setting"])
def test_with_a_wrong_tenant_every_read_path_gives_nothing(wrong: str) -> None:
    tenant = fresh_tenant()
    with postgres_store(tenant) as store:
        filled(store)
        there = reads(store)
        assert [name for name, value in there.items() if not value] == ["missing"]
    with postgres_store(tenant if wrong == "parameter" else fresh_tenant()) as store:
        store.database.ready()
        store.database.tenant = fresh_tenant() if wrong == "parameter" else tenant
        assert {name: value for name, value in reads(store).items() if value} == {}


def test_with_a_wrong_tenant_nothing_can_be_written() -> None:
    tenant = fresh_tenant()
    with postgres_store() as store, postgres_store(tenant) as theirs:
        theirs.put([entry("a")])
        store.database.ready()
        store.database.tenant = tenant
        with pytest.raises(StoreError):
            store.put([entry("b")])
        with pytest.raises(RecordNotFound):
            store.erase(ANN, ["a"], at=NOW)
        assert theirs.count(ALL) == 1


def test_every_table_forces_its_policy_on_a_role_that_owns_nothing(store: PostgresStore) -> None:
    store.put([entry("a")])
    found = store.database.read(
        lambda t: t.all(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, "
            "pg_get_userbyid(c.relowner) FROM pg_class AS c JOIN pg_namespace AS n "
            "ON n.oid = c.relnamespace WHERE n.nspname = 'agentmem' AND c.relkind = 'r'"
        )
    )
    guarded = {name: forced for name, forced, _ in found if name != "version"}
    assert guarded == dict.fromkeys(TABLES, True)
    ((user, config),) = store.database.read(
        lambda t: t.all("SELECT current_user, current_setting('agentmem.tenant')")
    )
    assert user == ROLE
    assert user not in {owner for _, _, owner in found}
    assert config == store.database.tenant


# ----------------------------------------------------------------------------
# Tables.


def test_many_who_open_an_empty_database_at_once_make_its_tables_once() -> None:
    with own_server() as server:
        with pytest.raises(NotAStore), PostgresStore(server.dsn, migrate=False) as early:
            early.count(ALL)
        stores = [PostgresStore(server.dsn, tenant=f"t{n}") for n in range(6)]
        failures: list[BaseException] = []

        def put(one: PostgresStore) -> None:
            try:
                one.put([entry("a")])
            except BaseException as error:  # noqa: BLE001 - told by the assertion below
                failures.append(error)

        threads = [threading.Thread(target=put, args=(one,)) for one in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert [one.count(ALL) for one in stores] == [1] * 6
        for one in stores:
            one.close()
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("CREATE ROLE app LOGIN")
            admin.execute(f"GRANT {ROLE} TO app")
        plain = server.dsn.replace("postgres@", "app@")
        with PostgresStore(plain, tenant="t1") as app:  # somebody who may create nothing
            app.put([entry("b")])
            assert app.count(ALL) == 2
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("UPDATE agentmem.version SET version = %s", (len(MIGRATIONS) + 1,))
        with pytest.raises(StoreTooNew), PostgresStore(server.dsn) as newer:
            newer.count(ALL)


def table_owner(server: Server) -> str:
    """The DSN of one who may make tables and, unlike a superuser, is held by their policies."""
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        admin.execute("CREATE ROLE maker LOGIN CREATEROLE")
        admin.execute("GRANT CREATE ON DATABASE postgres TO maker")
    return server.dsn.replace("postgres@", "maker@")


def test_an_upgrade_counts_who_speaks_in_the_rows_that_are_there() -> None:
    with own_server() as server:
        dsn = table_owner(server)
        with PostgresStore(dsn, tenant="t") as old:
            old.database._migrations = MIGRATIONS[:3]
            old.put([entry("a", speaker="Ann"), entry("b", speaker="Bob")])
            old.delete(ANN, ["b"], at=NOW)
        with PostgresStore(dsn, tenant="t") as store:
            assert PostgresSearch(store).speakers(ANN) == {name_id("Ann")}
            assert store.upkeep.verify().problems == ()


def test_a_dsn_names_its_tenant_and_hides_its_password() -> None:
    asked, tenant = split_dsn("postgresql://u:pw@h:1/d?tenant=a%20b&sslmode=require")
    assert (asked, tenant) == ("postgresql://u:pw@h:1/d?sslmode=require", "a b")
    assert connection.described(asked) == "postgresql://h:1/d"
    with pytest.raises(InvalidInput):
        PostgresStore("postgresql://h/d?nonsense=1")
    with pytest.raises(InvalidInput, match="read_dsn"):
        agentmem.open(":memory:", read_dsn="postgresql://h/d")


# ----------------------------------------------------------------------------
# Connections.


def test_a_pooler_may_give_each_transaction_another_connection(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore
) -> None:
    """What a transaction-pooling proxy does: nothing outlives a transaction."""
    fill(store)
    real = connection._Pool._living

    def living(pool: Any) -> Any:
        taken = real(pool)
        if taken is not None:
            taken.execute("DISCARD ALL")
            taken.execute("SET statement_timeout = '30s'")
        return taken

    monkeypatch.setattr(connection._Pool, "_living", living)
    store.put([entry("x")])
    assert store.get(ANN, "x").id == "x"
    assert store.upkeep.verify().problems == ()


class Pooler:
    """Stands before a server as a pooler does: each client is told a number of the pooler's own."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = str(server.folder / ".s.PGSQL.5432")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        self.dsn = f"postgresql://postgres@/postgres?host={folder}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Pass the greeting on message by message, the key of the server changed."""
        with server.makefile("rb") as said, client, server:
            kind = b""
            while kind not in (b"Z", b"E"):
                kind, size = said.read(1), said.read(4)
                body = said.read(int.from_bytes(size) - 4)
                if kind == b"K":
                    body = (int.from_bytes(body[:4]) + 1).to_bytes(4) + body[4:]
                client.sendall(kind + size + body)
            with suppress(OSError):
                while data := said.read1(1 << 16):
                    client.sendall(data)

    def close(self) -> None:
        self._listening.close()


def prepared_by(store: PostgresStore) -> int:
    """How many statements of the store its connections have prepared, after each was often sent."""
    for number in range(2 * connection.PREPARED_AFTER):
        store.put_new([entry(f"m{number}", content_hash=f"h{number}")], same="text")
        assert PostgresSearch(store).speakers(ANN) is not None
    with store.database.ready().pool.connection() as taken:
        found = taken.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert store.count(ALL) == 2 * connection.PREPARED_AFTER
    return int(found[0]) if found else 0


def test_statements_are_prepared_where_nobody_stands_between(
    store: PostgresStore, tmp_path: Path
) -> None:
    assert prepared_by(store) > 1
    pooler = Pooler(shared_server(), Path(tempfile.mkdtemp(prefix="pg", dir=tmp_path)))
    with PostgresStore(pooler.dsn, tenant=fresh_tenant()) as pooled:
        assert prepared_by(pooled) == 0
    pooler.close()


def deeds(store: PostgresStore) -> dict[str, Callable[[], object]]:
    """One call of each kind that changes something."""
    return {
        "put": lambda: store.put([entry("new", session="s9")]),
        "put_new": lambda: store.put_new([entry("new", content_hash="new")], same="message"),
        "update": lambda: store.update(ANN, entry("m5", "other words"), at=NOW),
        "supersede": lambda: store.supersede(ANN, "m5", entry("m5b"), at=NOW),
        "mark": lambda: store.mark_superseded(ANN, "m5", "m7", at=NOW),
        "delete": lambda: store.delete(ANN, ["m5", "m7"], at=NOW),
        "erase": lambda: store.erase(ANN, ["m5"], at=NOW),
        "usage": lambda: store.record_usage(ANN, ["m5"], at=NOW, cited=1),
        "setting": lambda: store.settings.update("color", lambda was: f"{was}!"),
        "claim": lambda: store.jobs.claim(at=NOW),
        "snapshot": lambda: store.snapshots.put(
            SnapshotRecord(id="t2", created_at=NOW, data={}, scope=ANN)
        ),
        "artifact": lambda: store.artifacts.put(
            Artifact(id="r2", data=b"x", created_at=NOW, scope=ANN)
        ),
        "link": lambda: store.links.put(
            ANN, Link(first_id="m5", second_id="m8", relation="near", created_at=NOW)
        ),
        "journal": lambda: store.journal.apply(
            ANN, Revision(id="run", kind="k", added=(entry("j"),), mark="seen"), at=NOW
        ),
    }


@pytest.mark.parametrize("name", list(deeds(None)))  # type: ignore[arg-type]  # only the names
def test_a_connection_that_breaks_at_any_statement_leaves_nothing_half_done(
    name: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, size=12)
    before = everything(store)
    left = [0]
    real = Transaction._execute

    def cut(open_connection: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            open_connection.close()

    def execute(self: Transaction, *given: Any, **how: Any) -> Any:
        cut(self._connection)
        return real(self, *given, **how)

    for statements in range(60):
        left[0] = statements
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "_execute", execute)
            try:
                deeds(store)[name]()
            except StoreUnavailable:
                broken = True
            else:
                broken = False
        if not broken:
            break
        if statements % 4 == 0:
            assert everything(store) == before  # also: the next call works again
    assert statements > 0
    assert everything(store) != before or name in ("claim", "usage", "snapshot", "artifact", "mark")
    assert store.upkeep.verify().problems == ()


def test_a_turn_goes_on_without_memory_while_the_database_is_away() -> None:
    """P30 over a socket: the answer is as without memory, and memory comes back by itself.

    The server keeps what it acknowledged: one that commits later may lose the memory when killed.
    """
    with (
        own_server(durable=True) as server,
        agentmem.open(server.dsn, embedder=HashEmbedder(16), judge_new=False) as memory,
    ):
        memory.add("My favourite tea is rooibos.", user_id="ann")
        asked = [{"role": "user", "content": "Which tea is my favourite?"}]
        assert "rooibos" in str(memory.turn(asked, user_id="ann").messages)
        memory.flush()
        server.kill()
        turn = memory.turn(asked, user_id="ann")
        assert turn.messages == asked
        assert turn.degradations
        with pytest.raises(StoreUnavailable) as raised:
            memory.add("Something else.", user_id="ann")
        assert isinstance(raised.value, ConnectionError)
        server.start()
        again = memory.turn(asked, user_id="ann")
        assert "rooibos" in str(again.messages), again.degradations


def test_a_write_after_the_server_came_back_finds_it() -> None:
    with own_server(durable=True) as server, PostgresStore(server.dsn) as store:
        store.put([entry("a")])
        server.kill()
        server.start()
        store.put([entry("b")])
        assert [memory.id for memory in store.scan(ALL)] == ["a", "b"]


def test_when_all_connections_are_taken_the_error_says_so() -> None:
    with postgres_store(connections=1, busy_seconds=0.2) as store:
        store.put([entry("a")])

        def ask_again(transaction: Transaction) -> int:
            return store.count(ALL)

        with pytest.raises(StoreBusy, match="connections"):
            store.database.read(ask_again)
        assert store.count(ALL) == 1


def test_lost_races_are_tried_again_with_a_bound(store: PostgresStore) -> None:
    tried: list[int] = []

    def lose(times: int) -> Callable[[Transaction], int]:
        def apply(transaction: Transaction) -> int:
            tried.append(1)
            if len(tried) <= times:
                raise psycopg.errors.SerializationFailure("could not serialize")
            return len(tried)

        return apply

    assert store.database.write(lose(3)) == 4
    tried.clear()
    with pytest.raises(StoreBusy, match="in a row"):
        store.database.write(lose(10**6))
    assert len(tried) == connection.MOST_TRIES


def test_two_who_wait_for_each_other_both_succeed(store: PostgresStore) -> None:
    store.put([entry("a"), entry("b")])
    both = threading.Barrier(2, timeout=20)
    done: list[str] = []

    def change(first: str, second: str) -> None:
        met = [False]

        def apply(transaction: Transaction) -> None:
            for memory_id in (first, second):
                transaction.run(
                    "UPDATE memories SET title = %(title)s "
                    "WHERE tenant = %(tenant)s AND key = %(key)s",
                    title=f"{first} before {second}",
                    key=digest(memory_id),
                )
                if not met[0]:
                    met[0] = True
                    both.wait()

        store.database.write(apply)
        done.append(first)

    threads = [threading.Thread(target=change, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["a", "b"]


def test_a_closed_store_says_so(store: PostgresStore) -> None:
    store.put([entry("a")])
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.count(ALL)


# ----------------------------------------------------------------------------
# Races that a unique key or a row lock decides.


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What these calls give when they start at one moment on threads of their own."""
    start = threading.Barrier(len(calls), timeout=30)
    given: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        start.wait()
        try:
            given[number] = calls[number]()
        except AgentMemError as error:
            given[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


def test_what_many_say_at_once_is_kept_once(store: PostgresStore) -> None:
    said = [entry(f"m{n}", "the same words") for n in range(6)]
    given = together(*(lambda one=one: store.put_new([one], same="text") for one in said))
    assert len(set(given)) == 1
    assert store.count(ALL) == 1


def test_an_owner_whom_another_worker_erased_can_be_written_again(store: PostgresStore) -> None:
    """The number of an owner is remembered between transactions; the one it gets next is new."""
    store.put([entry("a")])
    store.put([entry("b")])
    with postgres_store(store.database.tenant) as other:
        other.erase_all(Selection(reader=ANN), at=NOW)
        assert store.put_new([entry("c")], same="message") == ("c",)
        other.erase_all(Selection(reader=ANN), at=NOW)
        other.put([entry("d", "the same words")])
        said = [entry("e", "the same words")]
        assert store.put_new(said, same="text") == ("d",)
        store.jobs.enqueue("x", {}, scope=ANN, at=NOW)
        assert [one.id for one in other.scan(ALL)] == ["d"]
    assert store.upkeep.verify().problems == ()


def test_one_memory_is_added_in_few_round_trips(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put([entry("a")])
    store.put([entry("b")])
    sent: list[str] = []
    real = Transaction._execute

    def execute(self: Transaction, statement: str, *given: Any, **how: Any) -> Any:
        sent.append(statement)
        return real(self, statement, *given, **how)

    monkeypatch.setattr(Transaction, "_execute", execute)
    store.put_new([entry("c", content_hash="new")], same="message")
    assert len(sent) == 1  # who has it, a number for it, its rows, and the commit


def test_learned_state_that_many_update_at_once_is_kept_of_all(store: PostgresStore) -> None:
    def count() -> str | None:
        return store.settings.update("n", lambda was: str(int(was or 0) + 1))

    together(*[count] * 8)
    assert store.settings.get("n") == "8"


def test_each_job_is_claimed_by_one(store: PostgresStore) -> None:
    jobs = {store.jobs.enqueue("work", {"n": n}, at=NOW) for n in range(6)}
    claimed = together(*[lambda: store.jobs.claim(at=NOW)] * 8)
    assert sorted(job.id for job in claimed if job is not None) == sorted(jobs)


def test_the_second_of_two_updates_made_from_one_state_is_refused(store: PostgresStore) -> None:
    store.put([entry("a")])
    was = store.get(ANN, "a")
    given = together(
        *(
            lambda text=text: store.update(ANN, entry("a", text), at=NOW, was=was)
            for text in ("one", "two", "three")
        )
    )
    assert sum(isinstance(one, ChangedMeanwhile) for one in given) == 2
    assert len(store.history(ANN, "a")) == 1


def test_numbers_of_changes_come_in_the_order_of_the_commits(store: PostgresStore) -> None:
    """Whoever has read up to a number never misses a change that is committed later."""
    seen: set[int] = set()
    stop = threading.Event()
    at = [0]

    def follow() -> None:
        while not stop.is_set():
            changes = store.feed.changes(at[0])
            at[0] = changes.seq
            seen.update(row for c in changes.items for row in range(c.first, c.last + 1))

    def write(name: str) -> list[int]:
        return [row for n in range(10) for row in store.put([entry(f"{name}{n}")])]

    follower = threading.Thread(target=follow)
    follower.start()
    rows = together(*(lambda name=name: write(name) for name in "abcd"))
    stop.set()
    follower.join()
    last = store.feed.changes(at[0])
    seen.update(row for c in last.items for row in range(c.first, c.last + 1))
    assert {row for part in rows for row in part} <= seen


# ----------------------------------------------------------------------------
# Who speaks.


class Speaking:
    """Who speaks for Ann: as a search says that was there all the time, and one that is new."""

    def __init__(self, store: SqliteStore | PostgresStore) -> None:
        self._store = store
        self._kept = self._search()

    def _search(self) -> LocalSearch | PostgresSearch:
        if isinstance(self._store, PostgresStore):
            return PostgresSearch(self._store)
        return LocalSearch(self._store, path=None, background=False)

    def __call__(self, *, cold: bool = False) -> set[int]:
        said = []
        for search in (self._kept, self._search()):
            search.catch_up()
            said.append(set(search.speakers(ANN, cold=cold)))
        assert said[0] == said[1]
        return said[0]


@pytest.mark.parametrize("kind", ["file", "database"])
def test_they_speak_whose_rows_live_and_are_as_warm_as_is_asked(
    kind: str, tmp_path: Path, store: PostgresStore
) -> None:
    names = {"a": "Ann", "b": "Bob", "c": "Cleo", "d": "Dora" * 3000, "e": "Bob", "f": "E\x00\x01"}
    ids = {who: name_id(who) for who in names.values()}
    with SqliteStore(tmp_path / "a.db") as file:
        used = file if kind == "file" else store
        speaking = Speaking(used)
        used.put([entry(one, speaker=who) for one, who in names.items()])
        used.put([entry("not mine", speaker="Zoe", scope=BOB)])
        assert speaking() == set(ids.values())
        assert speaking(cold=True) == set()
        used.delete(ANN, ["b", "d"], at=NOW)
        away = entry("c", speaker="Cleo", metadata={"cold_at": "2026"})
        used.update(ANN, away, at=NOW)
        used.update(ANN, entry("a", "other words", speaker="Anna"), at=NOW)
        assert speaking() == {name_id("Anna"), ids["Bob"], ids["E\x00\x01"]}
        assert speaking(cold=True) == {ids["Cleo"]}
        used.delete(ANN, ["c", "e"], at=NOW)
        assert speaking() == {name_id("Anna"), ids["E\x00\x01"]}
        assert speaking(cold=True) == set()
        used.erase(ANN, ["f"], at=NOW)
        assert speaking() == {name_id("Anna")}
        assert used.upkeep.verify().problems == ()


# ----------------------------------------------------------------------------
# Moving.


def test_a_copy_that_was_broken_off_goes_on_and_ends_the_same(
    tmp_path: Path, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "AT_ONCE", 7)
    with SqliteStore(tmp_path / "a.db") as source, SqliteStore(tmp_path / "b.db") as back:
        fill(source)
        source.update(ANN, entry("m7", "put away", metadata={"cold_at": "2026"}), at=NOW)

        def stop(part: str, done: int, total: int) -> None:
            if part == "embeddings":
                raise KeyboardInterrupt

        for target, from_ in ((store.database, source), (back, store.database)):
            with pytest.raises(KeyboardInterrupt):
                transfer.copy_store(from_, target, progress=stop)
            done = transfer.copy_store(from_, target)
            assert done.resumed
            assert done.counts["memories"] == 34
        answers = [everything(one) for one in (source, store, back)]
        for one in answers:
            del one["changes"], one["index file"]  # each has its own
        assert answers[0] == answers[1] == answers[2]
        assert store.upkeep.verify().problems == back.upkeep.verify().problems == ()
        assert back.feed.cold_count() == 1
        with pytest.raises(InvalidInput, match="of its own"):
            transfer.copy_store(source, store.database)
        for end in (store, back):
            assert end.put([entry("next")])[0] > max(answers[0]["index"]["rows"])


def test_a_copy_that_differs_is_refused(
    tmp_path: Path, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(tmp_path / "a.db") as source:
        fill(source)
        real = transfer._fill

        def worse(part: str, rows: Any, *rest: Any) -> None:
            real(part, rows[1:] if part == "usage" else rows, *rest)

        monkeypatch.setattr(transfer, "_fill", worse)
        with pytest.raises(StoreError, match="usage"):
            transfer.copy_store(source, store.database)


def test_a_backup_is_a_file_that_any_machine_opens(tmp_path: Path, store: PostgresStore) -> None:
    fill(store)
    store.upkeep.backup(tmp_path / "deep" / "copy.db")
    with SqliteStore(tmp_path / "deep" / "copy.db") as copy:
        assert copy.count(ALL) == store.count(ALL)
        assert copy.settings.secret() == store.settings.secret()
    with pytest.raises(InvalidInput, match="exists"):
        store.upkeep.backup(tmp_path / "deep" / "copy.db")


# ----------------------------------------------------------------------------
# Replicas.


def test_a_replica_is_read_once_it_has_what_was_written() -> None:
    with (
        own_server(settings=("max_wal_senders=4",)) as server,
        server.replica() as replica,
        PostgresStore(server.dsn, read_dsn=replica.dsn, replica_seconds=20) as store,
    ):
        for number in range(5):
            store.put([entry(f"m{number}")])
            assert store.count(ALL) == number + 1  # its own writes, each at once
        assert store.database._written is not None
        with psycopg.connect(replica.dsn, autocommit=True) as held:
            held.execute("SELECT pg_wal_replay_pause()")
            with PostgresStore(server.dsn, read_dsn=replica.dsn, replica_seconds=0.05) as hasty:
                hasty.put([entry("late")])
                assert hasty.count(ALL) == 6  # the primary's, which it did not wait for
            held.execute("SELECT pg_wal_replay_resume()")
        replica.kill()
        assert store.count(ALL) == 6  # nobody there: the primary answers


# ----------------------------------------------------------------------------
# Many processes, and the end of one or of the server at any moment.


PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.unit.postgres_worker"])


class Worker:
    """A process of `postgres_worker`, and what it has told."""

    def __init__(
        self, what: Deed, server: Server, tenant: str, name: str, *, count: int, seconds: float
    ) -> None:
        self._told, theirs = PROCESSES.Pipe(duplex=False)
        how = {"dsn": server.dsn, "tenant": tenant, "name": name, "count": count}
        self.process = PROCESSES.Process(
            target=work, args=(theirs, what), kwargs={**how, "seconds": seconds}
        )
        self.process.start()
        theirs.close()

    def next(self, count: int) -> list[tuple[str, str]]:
        """What it tells next, so many times."""
        return [self._told.recv() for _ in range(count)]

    def rest(self) -> list[tuple[str, str]]:
        """What it told until it ended."""
        found: list[tuple[str, str]] = []
        with suppress(EOFError):
            while True:
                found.append(self._told.recv())
        self.process.join()
        return found

    def kill(self) -> None:
        self.process.kill()


def check_acknowledged(tenant: str, dsn: str, told: list[tuple[str, str]]) -> None:
    """Every acknowledged text is there once, under the id that was given."""
    with PostgresStore(dsn, tenant=tenant) as store:
        found = {m.id: m.text for m in store.scan(Selection(reader=ANN, superseded=True))}
        texts = list(found.values())
        assert len(set(texts)) == len(texts), "doubled"
        assert [(i, text) for i, text in told if i and found.get(i) != text] == [], "lost"
        assert store.upkeep.verify().problems == ()


@pytest.mark.parametrize(
    ("writers", "count", "seconds"),
    [(3, 8, 60.0), pytest.param(6, 10**9, 60.0, marks=pytest.mark.deep)],
)
def test_many_processes_lose_nothing_and_double_nothing(
    writers: int, count: int, seconds: float
) -> None:
    try:
        server = shared_server()
    except CannotStart as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")
    tenant = fresh_tenant()
    how: dict[str, Any] = {"count": count, "seconds": seconds}
    running = [Worker("write", server, tenant, f"w{n}", **how) for n in range(writers)]
    running += [Worker("read", server, tenant, "r", **how) for _ in range(2 if writers > 3 else 1)]
    running += [Worker("consolidate", server, tenant, "c", count=min(count, 5), seconds=seconds)]
    said = [one.rest() for one in running]
    assert [one.process.exitcode for one in running] == [0] * len(running)
    assert all(told[-1] == ("", "done") for told in said)
    lines = [line for told in said for line in told]
    assert len(lines) >= 2 * writers
    check_acknowledged(tenant, server.dsn, lines)


@pytest.mark.parametrize("times", [2, pytest.param(200, marks=pytest.mark.deep)])
@pytest.mark.parametrize("who", ["client", "server"])
def test_what_was_acknowledged_survives_a_kill(who: str, times: int) -> None:
    told: list[tuple[str, str]] = []
    with own_server(durable=True) as server:
        for number in range(times):
            child = Worker("write", server, "t", f"run {number}", count=10**9, seconds=600)
            told += child.next(3 + number % 7)
            (child if who == "client" else server).kill()
            if who == "server":
                server.start()
                told += child.next(2)
                child.kill()
            told += child.rest()
            if number % 20 == 0:
                check_acknowledged("t", server.dsn, told)
        check_acknowledged("t", server.dsn, told)
