"""Our own server on a free port of loopback, in a thread, from `with` to the end of it."""

from __future__ import annotations

import threading
from typing import Any, Self

import uvicorn


class Serving:
    """`url` answers as soon as this is entered."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_config=None, access_log=False, http="h11",
            timeout_keep_alive=60,  # a busy machine lets a kept connection rest longer than usual
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def url(self) -> str:
        (sockets, *_) = [server.sockets for server in self._server.servers]
        return f"http://127.0.0.1:{sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        waiting = threading.Event()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            waiting.wait(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
