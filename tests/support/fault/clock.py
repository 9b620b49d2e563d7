"""A clock that jumps, for a gateway under test: what Python says of the time is ahead by the seconds of a file.

    clock = JumpingClock(tmp_path)
    world = start(**clock.environ)
    clock.jump(-600)

`time.time()`, `time.time_ns()`, and `now()`, `utcnow()` and `today()` of `datetime` and `date` jump, and so does all
that builds on them, such as Django's `timezone.now()`. Steady clocks (`time.monotonic()`), times of files and the
clocks of PostgreSQL and Redis do not.
"""

from pathlib import Path

# Read by the interpreter before anything else: whoever imports `datetime` afterwards gets the class that jumps.
# Values that C code makes are of the real class, and count as instances of this one.
# today() of both classes asks time.time(), and so jumps without a change.
CUSTOMIZE = """
import datetime, os, time

def ahead(file={file!r}, state=[0, 0.0]):
    changed = os.stat(file).st_mtime_ns
    if changed != state[0]:
        with open(file) as text:
            state[:] = changed, float(text.read() or 0)
    return state[1]

def jumping_time(right=time.time):
    return right() + ahead()

def jumping_time_ns(right=time.time_ns):
    return right() + int(ahead() * 10**9)

class Kind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, cls.__base__)
    def __subclasscheck__(cls, other):
        return issubclass(other, cls.__base__)

class Jumping(datetime.datetime, metaclass=Kind):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
    @classmethod
    def utcnow(cls):
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)

Jumping.__name__ = Jumping.__qualname__ = "datetime"
Jumping.__module__ = "datetime"
time.time, time.time_ns, datetime.datetime = jumping_time, jumping_time_ns, Jumping
"""


class JumpingClock:
    """Its `environ` is that of a process whose clock `jump()` moves."""

    def __init__(self, directory: Path, seconds: float = 0) -> None:
        self._file = directory / "ahead"
        self.jump(seconds)
        (directory / "sitecustomize.py").write_text(CUSTOMIZE.format(file=str(self._file)))
        self.environ = {"PYTHONPATH": str(directory)}

    def jump(self, seconds: float) -> None:
        """From now on the clock is ahead by this. The file is replaced as a whole: it may be read at any moment."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)
