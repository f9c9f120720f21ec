"""A server that never ends an answer, and never is silent."""

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def dripping(first):
    """Serve each connection a byte each 50 ms after these, for ever; yield HOST:PORT."""
    stop, threads = threading.Event(), list[threading.Thread]()

    def drip(connection):
        with connection, suppress(OSError):
            connection.sendall(first)
            while not stop.wait(0.05):
                connection.sendall(b"x")

    def serve():
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=drip, args=(listener.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        threads.append(threading.Thread(target=serve))
        threads[0].start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
