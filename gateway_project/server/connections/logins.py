"""What logs in with a password: it costs a core for a tenth of a second before its sender is known."""

import re
from urllib.parse import unquote_to_bytes

from gateway_project.server.paths import CONSOLE, LOGIN_API, USER_PAGES

LOGIN_PATHS = (LOGIN_API, f"{CONSOLE}/login", f"{USER_PAGES}/login")
TOO_MANY_LOGINS = "Too many logins are in progress. Try again in a few seconds."
LINE_END, HEAD_END, LAST_CHUNK = b"\r\n", b"\r\n\r\n", b"0\r\n\r\n"
_PATHS = frozenset(path.encode() for path in LOGIN_PATHS)
_READS = (b"GET", b"HEAD")
_BODY_BYTES = re.compile(rb"\r\ncontent-length:[ \t]*0*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_HAS_BODY = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_FORWARDED_FOR = re.compile(rb"\r\nx-forwarded-for:([^\r\n]*)", re.IGNORECASE)


def is_login(data: bytes) -> bool:
    """Whether these bytes of a connection begin with the whole head of a login, as the application reads it.

    A refresh of a session is one, too, until its body shows that it has no password.
    """
    line, _, rest = _without_line_end(data).partition(LINE_END)
    has_head = rest.startswith(LINE_END) or HEAD_END in rest
    return has_head and _is_of_login(line) and not (_path_of(line) == LOGIN_API.encode() and _is_refresh(data))


def may_be_login(data: bytes) -> bool:
    """Whether they begin with a login, or its first line is not whole yet."""
    line, end, _ = _without_line_end(data).partition(LINE_END)
    return not end or _is_of_login(line)


def is_whole(data: bytes) -> bool:
    """Whether the body of a request whose head is here is here, too."""
    head, _, body = _without_line_end(data).partition(HEAD_END)
    head += LINE_END
    if size := _BODY_BYTES.search(head):
        return len(body) >= int(size[1])
    return _HAS_BODY.search(head) is None or body.endswith(LAST_CHUNK)


def is_judgeable(data: bytes) -> bool:
    """Whether the whole head of a request is here, and of a login the body, too."""
    return HEAD_END in data and (is_whole(data) or not is_login(data))


def has_no_password(body: bytes) -> bool:
    """Whether a whole body for the API's login has a token and certainly no password, not even an escaped one."""
    return b'"Bearer"' in body and b"password" not in body and b"\\" not in body


def _is_refresh(data: bytes) -> bool:
    """Whether the whole body is here and has no password; in chunks the word could be in two parts."""
    head, _, body = _without_line_end(data).partition(HEAD_END)
    size = _BODY_BYTES.search(head + LINE_END)
    if size is None or b"transfer-encoding" in head.lower() or len(body) < int(size[1]):
        return False
    return has_no_password(body[: int(size[1])])


def forwarded_for(data: bytes) -> str:
    """X-Forwarded-For of a request whose head is here, as WSGI has it; '' if there is none."""
    head = data.partition(HEAD_END)[0]
    return b",".join(_FORWARDED_FOR.findall(head)).decode("latin-1")


def _without_line_end(data: bytes) -> bytes:
    """gunicorn skips one before a request, as RFC 9112 (2.2) says."""
    return data.removeprefix(LINE_END)


def _is_of_login(line: bytes) -> bool:
    """Whether a request's first line is that of a login."""
    return line.partition(b" ")[0] not in _READS and _path_of(line) in _PATHS


def _path_of(line: bytes) -> bytes:
    """The path in a request's first line, without its last slash; the target may have a host, a query and escapes."""
    path = line.partition(b" ")[2].partition(b" ")[0].partition(b"?")[0].partition(b"#")[0]
    if b"://" in path:
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path).removesuffix(b"/")
