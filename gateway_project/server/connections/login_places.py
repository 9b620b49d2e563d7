"""The logins that threads work on."""

from gunicorn.workers.gthread import TConn

from gateway_project.server.connections.addresses import Places


class LoginPlaces:
    """Which connections have a place for their login, one each."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._hosts: dict[int, str] = {}  # by id() of the connection: the address that its login counts for

    def has_room(self, host: str) -> bool:
        """Whether this address would get a place now."""
        return self._places.has_room(host)

    def take(self, conn: TConn, host: str) -> None:
        """Take a place for a connection. Raises ServiceUnavailable if there is none."""
        self._places.take(host)
        self._hosts[id(conn)] = host

    def has_place(self, conn: TConn) -> bool:
        return id(conn) in self._hosts

    def release(self, conn: TConn) -> None:
        """Give back the connection's place, if it has one."""
        if host := self._hosts.pop(id(conn), ""):
            self._places.release(host)
