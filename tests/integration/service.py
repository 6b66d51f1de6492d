"""An address in front of coordinators, as a service of Kubernetes or a load balancer has: each new connection goes where a test says.

    with Service() as service:
        service.target = "127.0.0.1:29400"
        worker = cluster.start_worker("a", address=service.address)
        service.reset()             # of all connections; whoever tries again reaches the present target
"""

import contextlib
import socket
import threading


class Service:
    def __init__(self):
        self.target = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._sockets = set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *unused):
        # Wakes the thread that waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.reset()
        for thread in self._threads[1:]:
            thread.join()
        for end in self._sockets:
            end.close()

    def reset(self):
        """Breaks all connections."""
        with self._lock:
            for end in self._sockets:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            host, port = self.target.rsplit(":", 1)
            try:
                far = socket.create_connection((host, int(port)))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._copy, args=(source, sink))
                thread.start()
                self._threads.append(thread)

    def _copy(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        # The thread of the other direction ends too.
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
