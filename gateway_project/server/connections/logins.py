"""What logs in with a password: it costs a core for a tenth of a second before its sender is known."""

import re
from urllib.parse import unquote_to_bytes

LOGIN_PATHS = ("/auth/login", "/admin/login", "/me/login")
TOO_MANY_LOGINS = "Too many logins are in progress. Try again in a few seconds."
LINE_END, HEAD_END, LAST_CHUNK = b"\r\n", b"\r\n\r\n", b"0\r\n\r\n"
_PATHS = frozenset(path.encode() for path in LOGIN_PATHS)
_READS = (b"GET", b"HEAD")
_BODY_BYTES = re.compile(rb"\r\ncontent-length:[ \t]*0*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_HAS_BODY = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_FORWARDED_FOR = re.compile(rb"\r\nx-forwarded-for:([^\r\n]*)", re.IGNORECASE)


def is_login(received: bytes) -> bool:
    """Whether these bytes of a connection begin with the whole head of a login, as the application reads it."""
    line, _, rest = _without_line_end(received).partition(LINE_END)
    return _is_of_login(line) and (rest.startswith(LINE_END) or HEAD_END in rest)


def may_be_login(received: bytes) -> bool:
    """Whether they begin with a login, or its first line is not whole yet."""
    line, end, _ = _without_line_end(received).partition(LINE_END)
    return not end or _is_of_login(line)


def is_whole(received: bytes) -> bool:
    """Whether the body of a request whose head is here is here, too."""
    head, _, body = _without_line_end(received).partition(HEAD_END)
    head += LINE_END
    if size := _BODY_BYTES.search(head):
        return len(body) >= int(size[1])
    return _HAS_BODY.search(head) is None or body.endswith(LAST_CHUNK)


def is_judgeable(received: bytes) -> bool:
    """Whether the whole head of a request is here, and of a login the body, too."""
    return HEAD_END in received and (is_whole(received) or not is_login(received))


def forwarded_for(received: bytes) -> str:
    """X-Forwarded-For of a request whose head is here, as WSGI has it; '' if there is none."""
    head = received.partition(HEAD_END)[0]
    return b",".join(_FORWARDED_FOR.findall(head)).decode("latin-1")


def _without_line_end(received: bytes) -> bytes:
    """gunicorn skips one before a request, as RFC 9112 (2.2) says."""
    return received.removeprefix(LINE_END)


def _is_of_login(line: bytes) -> bool:
    """Whether a request's first line is that of a login; its target may have a host, a query and escapes."""
    method, _, rest = line.partition(b" ")
    if method in _READS:
        return False
    path = rest.partition(b" ")[0].partition(b"?")[0].partition(b"#")[0]
    if b"://" in path:
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path).removesuffix(b"/") in _PATHS
