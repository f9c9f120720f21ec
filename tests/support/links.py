"""Forwards TCP between parties that each have an address on loopback, and cuts the links between two sides.

A cut closes nothing, as when a cable is pulled: what is sent waits, and arrives when the link is back. Or it is lost,
and the connection with it, as when a host dies with what it had not sent yet.
"""

import asyncio
import contextlib
import threading
from functools import partial

HOST = "127.0.0.1"


class Links:
    """A port of its own for each party that listens; a party that connects is known by the address it comes from."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._side = frozenset()
        self._healed = asyncio.Event()
        self._lost = False

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, address, port):
        """Return the port by which others reach what a party listens on at ``port``."""
        return int(self._run(self._listen(address, port)))

    def cut(self, side):
        """Hold what goes between the parties of a side and all others, by their addresses."""
        self._run(self._set(frozenset(side)))

    def heal(self, *, lost=False):
        """Let all of it go on, or lose what was held."""
        self._run(self._set(frozenset(), lost))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _set(self, side, lost=False):
        self._side, self._lost = side, lost
        self._healed.set()
        self._healed = asyncio.Event()

    async def _listen(self, address, port):
        server = await asyncio.start_server(partial(self._forward, address, port), HOST, 0)
        return int(server.sockets[0].getsockname()[1])

    async def _forward(self, target, port, reader, writer):
        ends, writers = (writer.get_extra_info("peername")[0], target), [writer]
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if await self._passable(ends):
                there_reader, there_writer = await asyncio.open_connection(HOST, port)
                writers.append(there_writer)
                await asyncio.gather(self._pass(ends, reader, there_writer), self._pass(ends, there_reader, writer))
        for each in writers:
            each.close()

    async def _pass(self, ends, reader, writer):
        """Pass on what one end says until it closes; then close the other."""
        with contextlib.suppress(OSError):
            while (data := await reader.read(65536)) and await self._passable(ends):
                writer.write(data)
                await writer.drain()
            await self._passable(ends)
        writer.close()

    async def _passable(self, ends):
        """Return when the link is whole; False: what was held is lost."""
        source, target = ends
        while (source in self._side) != (target in self._side):
            await self._healed.wait()
            if self._lost:
                return False
        return True

    async def _end(self):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
