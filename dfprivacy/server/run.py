"""The server's process: it opens a socket, and runs uvicorn on it."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from dfprivacy.errors import ArgumentError, MissingDependency

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from dfprivacy.server.config import ServedTables

__all__ = ["serve"]


def serve(
    held: ServedTables,
    announce: Callable[[str], None],
    host: str = "127.0.0.1",
    port: int = 8765,
    certfile: str | os.PathLike[str] | None = None,
    keyfile: str | os.PathLike[str] | None = None,
) -> None:
    """Serve tables over HTTP until the process is interrupted.

    Parameters
    ----------
    held : ServedTables
        The tables.
    announce : callable
        Told the address, once requests can come.
    host, port : str and int
        Where to listen; port 0 is any that is free.
    certfile, keyfile : str or path, optional
        The files of a certificate and its key, for TLS.

    Raises
    ------
    MissingDependency
        If the server's libraries are not installed.
    ArgumentError
        If the address or the files cannot be used.
    """
    try:
        import uvicorn

        from dfprivacy.server.app import make_app
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"The server needs {error.name}.", 'Install it: pip install "dfprivacy[server]".'
        ) from None
    if (certfile is None) != (keyfile is None):
        raise ArgumentError("TLS needs a certificate and its key.", "Name both: --certfile FILE --keyfile FILE.")
    if not 0 <= port < 1 << 16:
        raise ArgumentError(f"port={port} is not a port number.", "Give a number from 0 to 65535.")
    config = uvicorn.Config(
        make_app(held),
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
    )
    try:
        config.load()  # which reads the files
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"The certificate or key for TLS cannot be used: {error}.", "Check --certfile and --keyfile."
        ) from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ArgumentError(
            f"The address {host}, port {port}, cannot be used: {error}.", "Name another: --port 0 takes a free one."
        ) from None
    shown = f"[{host}]" if ":" in host else host
    with listening, suppress(KeyboardInterrupt):  # Ctrl-C ends it, and is no failure
        announce(f"{'http' if certfile is None else 'https'}://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])
