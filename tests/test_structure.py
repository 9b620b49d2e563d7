"""How the code is built: sizes of functions and folders, names, and no import cycles."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import grimp
import pytest

from tests.support.running import ROOT

pytestmark = pytest.mark.embedded

PACKAGES = ("accounts", "gateway_project", "keys", "licensing", "providers", "rules", "telemetry")
MAX_FILES, MAX_MODULE_LINES, MAX_LINES, MAX_MEDIAN_LINES = 16, 400, 40, 6
MAX_ANY = 189
MAX_PARTICIPLES_IN_TESTS = 336  # this number only falls
MAX_PARTICIPLES = 6  # this number only falls
PARTICIPLES = re.compile(
    r"_*(told|found|given|made|meant|said|held|kept|left|taken|wanted|asked|known|seen|sent|got|gone|done)(_\w+)?\Z"
)
# Participles that a noun mostly says better: a time that `begun` was is started_at, bytes that are `received` are data.
MAX_OTHER_PARTICIPLES = 6  # this number only falls
OTHER_PARTICIPLES = re.compile(
    r"_*(begun|written|shown|used|lost|counted|stored|received|chosen|named|sealed|recorded)\Z"
)

# Functions whose call does not say what happens: a participle or an adverb instead of a verb with an object.
MAX_RIDDLES = 2  # this number only falls
RIDDLES = re.compile(
    r"_*([a-z0-9]+(ed|ings?)|around|beginnings?|shown|chosen|written|drawn|begun|always|never|exactly|once|nothing|most"
    r"|who|when|during|within|without|until|since|each|others?|onwards|together|inside|thoughts|because|usual|unread"
    r"|misspelt|proven|taken|sent|spent|kept|lost|forbidden|cut|plus|per|at|by|for|one|own|it|what)\Z"
)
NOUNS_AND_VERBS = {
    "embedding", "embeddings", "feed", "find", "findings", "mapping", "reading", "reasoning", "setting", "string",
    "thinking", "warning",
}  # fmt: skip


def modules(packages: Sequence[str] = PACKAGES) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", *(f"{package}/*.py" for package in packages)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = [ROOT / name for name in listing.stdout.split() if "/migrations/" not in name]
    return [path for path in paths if path.exists()]


def parse(paths: Iterable[Path]) -> dict[Path, ast.Module]:
    """The syntax trees, made by a thread of its own: a browser's greenlets confuse the parser's depth in this one."""
    with ThreadPoolExecutor(1) as pool:
        return {path: pool.submit(ast.parse, path.read_text(encoding="utf-8")).result() for path in paths}


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return parse(modules())


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1


def local_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and name of each assigned variable, loop variable and parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def all_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Those of functions and classes as well, all in snake case."""
    yield from local_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()


def riddles(node: ast.AST, *, may_be_adjectives: bool = False) -> Iterator[tuple[int, str]]:
    """The functions that `RIDDLES` matches. Methods of querysets, properties and columns of lists may be adjectives."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = " ".join(ast.unparse(decorator) for decorator in child.decorator_list)
            is_exempt = may_be_adjectives or re.search(r"property|display", decorators) is not None
            if not is_exempt and RIDDLES.match(child.name) and child.name.strip("_") not in NOUNS_AND_VERBS:
                yield child.lineno, child.name
        yield from riddles(child, may_be_adjectives=isinstance(child, ast.ClassDef) and "QuerySet" in child.name)


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and text of each literal, and of what stands between the fields of f-strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_functions_are_short(trees):
    lengths = {f"{path}:{node.lineno}": length(node) for path, tree in trees.items() for node in functions(tree)}
    assert {place: lines for place, lines in lengths.items() if lines > MAX_LINES} == {}
    assert median(lengths.values()) <= MAX_MEDIAN_LINES


def participles(
    trees: Iterable[tuple[Path, ast.Module]],
    names_of: Callable[[ast.Module], Iterator[tuple[int, str]]] = all_names,
    pattern: re.Pattern[str] = PARTICIPLES,
) -> list[str]:
    """The place and name of each variable, function and class that is a participle."""
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees
        for line, name in names_of(tree)
        if pattern.match(name)
    ]


def test_modules_are_short():
    sizes = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules([*PACKAGES, "tests"])}
    assert {path: size for path, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_names_are_nouns_and_verbs(trees):
    names = participles(trees.items())
    assert len(names) <= MAX_PARTICIPLES, "\n".join(names)


def test_variables_become_nouns(trees):
    names = participles(trees.items(), local_names, OTHER_PARTICIPLES)
    assert len(names) <= MAX_OTHER_PARTICIPLES, "\n".join(names)


def test_functions_are_verbs_with_an_object(trees):
    names = participles(trees.items(), riddles, RIDDLES)
    assert len(names) <= MAX_RIDDLES, "\n".join(names)


@pytest.mark.long
def test_variables_of_tests_become_nouns():
    names = participles(parse(modules(["tests"])).items(), local_names)
    assert len(names) <= MAX_PARTICIPLES_IN_TESTS, "\n".join(names)


def test_no_text_shows_the_name_of_a_constant(trees):
    """A part of a text over several lines has lost its f, as in "within {SECONDS} s"."""
    places = [f"{path.relative_to(ROOT)}:{line} {text}" for path, tree in trees.items() for line, text in texts(tree)]
    assert [place for place in places if re.search(r"\{[A-Z][A-Z_]+\}", place)] == []


def test_any_is_rare():
    """The word `Any` on lines without `import`, in comments too."""
    counts = {path: count_any(path.read_text(encoding="utf-8")) for path in modules()}
    total = sum(counts.values())
    most = ", ".join(f"{path.relative_to(ROOT)} ({counts[path]})" for path in sorted(counts, key=counts.get)[:-6:-1])
    assert total <= MAX_ANY, (
        f"The word Any stands {total} times in the product code, of at most {MAX_ANY}. Use the real type, `object` for "
        f"values that are only checked or passed on, JsonObject for JSON. The most are in {most}."
    )


def count_any(text: str) -> int:
    return sum(len(re.findall(r"\bAny\b", line)) for line in text.splitlines() if "import" not in line)


def test_folders_are_small(trees):
    sizes = Counter(path.parent.relative_to(ROOT) for path in trees)
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_FILES} == {}


def test_support_code_of_tests_stands_in_its_own_folder():
    names = re.compile(r"(test_\w+|conftest|__init__)\.py")
    paths = [path.relative_to(ROOT / "tests") for path in modules(["tests"]) if not names.fullmatch(path.name)]
    assert [str(path) for path in paths if path.parts[0] != "support"] == []


def test_files_are_made_in_one_place_that_records_them():
    paths = [path.relative_to(ROOT) for path in modules() if "attachment; filename" in path.read_text(encoding="utf-8")]
    assert [str(path) for path in paths] == ["gateway_project/api/audit.py"]


def test_no_module_imports_itself_through_others():
    """Imports for type checking and inside functions count too."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, exclude_type_checking_imports=False)
    cycles = [cycle for cycle in strongly_connected(graph) if len(cycle) > 1]
    assert cycles == []


def strongly_connected(graph: grimp.ImportGraph) -> Iterator[list[str]]:
    """Groups of modules that import each other, directly or not (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in graph.find_modules_directly_imported_by(module):
            if imported not in index:
                yield from visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            at = stack.index(module)
            yield sorted(stack[at:])
            del stack[at:]

    for module in sorted(graph.modules):
        if module not in index:
            yield from visit(module)
