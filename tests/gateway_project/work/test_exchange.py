"""Each part of the exchange has one writer, which its comment names."""

import ast
import re
from pathlib import Path

import pytest

from gateway_project.work import exchange

pytestmark = pytest.mark.embedded

WORK = Path(exchange.__file__).parent
WRITERS = re.compile(r"    (\w+): .*# written by ([\w.]+)(?:: .*)?$", re.MULTILINE)
MUTATORS = {"append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "add", "discard"}
# Only the constructor sets them.
CONSTANTS = {"connection", "request_id", "endpoint", "is_rival", "is_mirror", "started", "started_at"}


def writers():
    """By attribute of Exchange, the module or package that its comment names."""
    source = Path(exchange.__file__).read_text()
    return dict(WRITERS.findall(source[source.index("class Exchange:") :]))


def is_in(module, writer):
    return f"{module}.".startswith(f"{writer}.")


def path_of(node):
    """["exchange", "cache", "key"] for that expression; subscripts are left out; empty for any other."""
    names = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
        node = node.value
    path = [node.id, *names] if isinstance(node, ast.Name) else []
    return path[1:] if path[:1] == ["self"] else path


def leaves(target):
    return target.elts if isinstance(target, ast.Tuple) else [target]


def targets_of(node):
    """The expressions that a statement or call writes to, apart from names that it binds."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return [leaf for target in targets for leaf in leaves(target) if not isinstance(leaf, ast.Name)]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [] if isinstance(target, ast.Name) else [target]
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in MUTATORS:
            return [value]
    return []


def aliases_in(function):
    """By name of a local variable, the part of the exchange that it stands for, or something in it."""
    aliases = {}
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            values = leaves(node.value) if isinstance(target, ast.Tuple) else [node.value]
            for name, value in zip(leaves(target), values, strict=False):
                path = path_of(value)
                if isinstance(name, ast.Name) and len(path) > 1 and path[0] == "exchange":
                    aliases[name.id] = path[1]
    return aliases


def parts_written_in(source):
    """The attributes of the exchange that this code writes, or writes into."""
    parts = set()
    for function in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        aliases = aliases_in(function)
        for path in (path_of(target) for node in ast.walk(function) for target in targets_of(node)):
            if len(path) > 1 and path[0] in ("exchange", "_exchange"):
                parts.add(path[1])
            elif path and path[0] in aliases:
                parts.add(aliases[path[0]])
    return parts


def module_name(path):
    return ".".join(path.relative_to(WORK).with_suffix("").parts)


def test_every_part_names_its_writer():
    assert set(writers()) == set(exchange.Exchange.__dataclass_fields__) - CONSTANTS


@pytest.mark.parametrize("path", sorted(WORK.rglob("*.py")), ids=module_name)
def test_only_the_named_writer_writes_a_part(path):
    name = module_name(path)
    for part in parts_written_in(path.read_text()):
        writer = writers().get(part, "the constructor")
        assert is_in(name, writer), f"{name} writes exchange.{part}, which only {writer} may"


def test_every_named_writer_writes_its_part():
    modules = {module_name(path): parts_written_in(path.read_text()) for path in WORK.rglob("*.py")}
    for part, writer in writers().items():
        if writer != "exchange":  # by its own methods
            assert any(part in parts for name, parts in modules.items() if is_in(name, writer)), f"{writer} {part}"


@pytest.mark.parametrize(
    "statement",
    [
        "exchange.cache.key = ''",
        "exchange.cache.holds += [1]",
        "exchange.cache.outcomes[5] = 'failed'",
        "exchange.cache.chunks.append(b'')",
        "flight, exchange.cache.flight = exchange.cache.flight, None",
        "cache = exchange.cache; cache.key = ''",
        "cache, limits = exchange.cache, exchange.limits; cache.key = ''",
        "self._exchange.cache.key = ''",
        "exchange.cache = None",
        "holds = exchange.cache.holds; holds[-1].cost = 1",
        "wait, holds = 1, exchange.cache.holds; holds.append(1)",
    ],
)
def test_a_write_is_seen(statement):
    assert parts_written_in(f"def stage(exchange, gateway):\n    {statement}\n") == {"cache"}
