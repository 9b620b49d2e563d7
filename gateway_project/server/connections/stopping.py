"""How a worker stops: it loses no queued connection, and does not wait for silent ones."""

import contextlib
import math
import select
import socket
from collections import deque

from gunicorn.workers.gthread import TConn, ThreadWorker


class StoppingWorker(ThreadWorker):
    """gthread that stops in good order. When it has as many connections as it may, idle ones give way to new ones."""

    sockets: list[socket.socket]  # gunicorn's listeners: its class hands all attributes of a socket on
    pending_conns: deque[TConn]  # those that have sent nothing yet

    def init_process(self) -> None:
        # Threads may still be busy when run() ends. They write to the queue's pipe, whose number would then be that of
        # another file.
        self.method_queue.close = lambda: None
        super().init_process()

    def _accept_one(self, listener: socket.socket) -> bool:
        """Accept a connection; False if none waits."""
        raise NotImplementedError

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            self._close_listeners()
        elif not enabled and self.keepalived_conns:
            self.keepalived_conns[0].timeout = -math.inf  # gunicorn closes it at once, and accepts again

    def _close_listeners(self) -> None:
        """Accept the connections that are queued, then let the kernel refuse new ones.

        gunicorn listens until its last request has ended: clients that connect meanwhile would wait that long and
        then be reset, and a successor would find the port taken.
        """
        for listener in self.sockets:
            waiting = select.poll()
            waiting.register(listener, select.POLLIN)
            with contextlib.suppress(OSError):  # the process has no file descriptor left
                for _ in range(self.cfg.backlog):  # other processes may listen, too: then new ones come without end
                    if not (waiting.poll(0) and self._accept_one(listener)):
                        break
            listener.close()
        self.sockets = []

    def _cap_keepalive(self, deadline: float) -> None:
        """Close idle connections by `deadline` at the latest; gunicorn leaves those that never sent anything."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)
