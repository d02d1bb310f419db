"""Mutation testing: how many small errors in the core of the package do its tests find?

Each mutant is one of the modules with a single change: a comparison, an operator, a number, a name
such as ``min`` for ``max``, the bound of a slice, a missing keyword or statement, or None returned.
Docstrings, annotations, decorators, imports, error messages and the meanings of parameters are not
changed; nor is the first assignment to a name, without which nothing could pass. A mutant is killed
if a test fails; equivalent mutants, which behave like the module, count as survivors.

The working tree is copied first and never written. Everything but the package is imported once;
each mutant then has its own forked process, which runs the tests of its module, those that killed
most mutants first. Kernels run as plain Python, so that none has to be compiled again.

Run it with ``python benchmarks/mutants.py [--module M …] [--sample N] [--jobs N] [--list]``.
"""

from __future__ import annotations

import os

os.environ["NUMBA_DISABLE_JIT"] = "1"  # read when Numba is imported
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a fork has no threads

import argparse
import ast
import builtins
import contextlib
import copy
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent
# The files whose tests judge each module; its doctests are included.
TESTS = {
    "learning/selection/selector": (
        "learning/selection/test_selector",
        "learning/selection/test_significance",
    ),
    "learning/aliasing": ("learning/test_aliasing", "learning/selection/test_selector"),
    "learning/mdp": ("learning/test_mdp", "learning/test_aliasing"),
    "learning/compaction": ("learning/test_compaction",),
}
# They hash in kernels, where integers overflow with a warning in plain Python; the last is slow.
LEFT_OUT = "save_the_same_bytes or a_compacted_policy_acts or any_number_of_threads or 299999"
LATER = ("rlvc", "tests", "__", "_hypothesis_pytestplugin")  # each process imports these itself
NOTHING = "nothing changed"
MEMORY = 8 << 30  # bytes that a mutant may use

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = [
    ("max", "min"), ("maximum", "minimum"), ("argmax", "argmin"), ("any", "all"),
    ("zeros", "ones"), ("add", "subtract"),
]  # fmt: skip
NAMES = {a: b for one, other in PAIRS for a, b in ((one, other), (other, one))}
UNWRAPPED = ("abs", "rint", "sqrt", "sorted")  # calls that may be left out


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one module."""

    module: str
    line: int
    change: str
    source: str  # the line, for people
    code: CodeType

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}  {self.change}    in: {self.source}"


def name_of(node: ast.AST) -> str:
    """Return the last name of a function or an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_text(node: ast.AST) -> bool:
    """Return whether a statement is a docstring or an ellipsis."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def children(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield all changeable nodes below a node, as (parent, field, index in the field, child)."""
    if is_text(node) or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "ctx", "type_params"):
            continue
        several = isinstance(value, list)
        for place, child in enumerate(value if several else [value]):
            is_meaning = isinstance(node, ast.Call) and name_of(node.func) == "param"
            if isinstance(child, ast.AST) and not (is_meaning and (name, place) == ("args", 1)):
                yield node, name, place if several else None, child
                yield from children(child)


def bound_before(function: ast.AST) -> set[ast.AST]:
    """Return the assignments of a function to names that have a value already."""
    if not isinstance(function, ast.FunctionDef):
        return set()
    known = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    again: set[ast.AST] = set()
    for node in sorted(
        (n for n in ast.walk(function) if isinstance(n, ast.Assign)), key=lambda n: n.lineno
    ):
        names = {n.id for target in node.targets for n in ast.walk(target)
                 if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        if names <= known:  # also where only an element or an attribute is assigned to
            again.add(node)
        known |= names
    return again


def changed(node: ast.AST, **fields: Any) -> Any:
    """Return a copy of a node with other fields."""
    twin = copy.copy(node)
    for name, value in fields.items():
        setattr(twin, name, value)
    return twin


def changes(node: ast.AST, again: set[ast.AST]) -> Iterator[ast.AST]:
    """Yield the replacements of a node."""
    match node:
        case ast.Compare():
            for place, op in enumerate(node.ops):
                for other in COMPARISONS[type(op)]:
                    yield changed(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
        case ast.BoolOp():
            yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp():
            yield node.operand
        case ast.BinOp() | ast.AugAssign() if type(node.op) in OPERATORS:
            yield changed(node, op=OPERATORS[type(node.op)]())
        case ast.Constant(value=bool() as value):
            yield changed(node, value=not value)
        case ast.Constant(value=int() as value):
            yield from (changed(node, value=value + step) for step in (1, -1))
        case ast.Constant(value=float() as value):
            yield changed(node, value=value + 1.0)
        case ast.Constant(value=str() as value):
            yield changed(node, value=f"other {value}")
        case ast.Slice():
            for bound in ("lower", "upper", "step"):
                if getattr(node, bound) is not None:
                    yield changed(node, **{bound: None})
        case ast.Name() if node.id in NAMES and hasattr(builtins, node.id):
            yield changed(node, id=NAMES[node.id])
        case ast.Attribute() if node.attr in NAMES:
            yield changed(node, attr=NAMES[node.attr])
        case ast.Call():
            if name_of(node.func) in UNWRAPPED and node.args:
                yield node.args[0]
            for place in range(len(node.keywords)):
                rest = [*node.keywords[:place], *node.keywords[place + 1 :]]
                yield changed(node, keywords=rest)
        case ast.If() | ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension():
            for place in range(len(node.ifs)):
                yield changed(node, ifs=[*node.ifs[:place], *node.ifs[place + 1 :]])
        case ast.Return(value=ast.AST()):
            yield changed(node, value=ast.Constant(None))
    is_statement = isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
    if (is_statement and not is_text(node)) or node in again:
        yield ast.Pass()


def mutants_of(module: str, path: Path) -> Iterator[Mutant]:
    """Yield the unchanged module, which must survive, and then all its mutants."""
    text = path.read_text()
    yield Mutant(module, 1, NOTHING, "", compile(text, str(path), "exec"))
    lines, tree = text.splitlines(), ast.parse(text)
    again = set().union(*map(bound_before, ast.walk(tree)))
    line = 1
    for parent, name, place, node in list(children(tree)):
        line = getattr(node, "lineno", getattr(parent, "lineno", line))
        for other in changes(node, again):
            whole = getattr(parent, name)
            put = other if place is None else [*whole[:place], other, *whole[place + 1 :]]
            setattr(parent, name, put)
            code = compile(ast.fix_missing_locations(copy.deepcopy(tree)), str(path), "exec")
            setattr(parent, name, whole)
            change = f"{brief(node)} → {brief(other)}"
            yield Mutant(module, line, change, lines[line - 1].strip(), code)


def brief(node: ast.AST) -> str:
    """Return the first line of a node's text."""
    if isinstance(node, ast.Slice):
        node = ast.Subscript(ast.Name("x"), node)
    if isinstance(node, ast.comprehension):
        return "[…" + ast.unparse(node) + "]"
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]
    return text if len(text) <= 100 else text[:99] + "…"


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the code of a mutant for its module."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Answer for the module that was changed."""
        if fullname != "rlvc." + self.mutant.module.replace("/", "."):
            return None
        origin = self.mutant.code.co_filename
        return importlib.machinery.ModuleSpec(fullname, self, origin=origin)

    def exec_module(self, module: ModuleType) -> None:
        """Run the code."""
        module.__file__ = self.mutant.code.co_filename
        exec(self.mutant.code, module.__dict__)


@dataclass(eq=False)  # pytest wants plugins that can be hashed
class Watch:
    """Order the tests, record their seconds, and exit at the first failure."""

    order: Sequence[str]
    answer: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def pytest_configure(self) -> None:
        """Generate the same examples every time, and do not shrink failures."""
        generate = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, phases=generate,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run tests first that are likely to fail, or fast."""
        rank = {name: place for place, name in enumerate(self.order)}
        items.sort(key=lambda item: rank.get(item.nodeid, len(rank)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test."""
        took = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = took
        if report.failed:
            self.leave(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Report that all tests passed, or that none could be collected."""
        self.leave("" if exitstatus == 0 else "the imports")

    def leave(self, killer: str) -> None:
        """Write the result and exit the process."""
        known = [name for name in sys.modules if not name.startswith(LATER)]
        answer = {"killer": killer, "seconds": self.seconds, "modules": known}
        self.answer.write_text(json.dumps(answer))
        os._exit(0)


def replace_intrinsics() -> None:
    """Replace the functions that exist in compiled kernels only."""

    def add_to_row(array: Any, row: int, *numbers: int) -> None:
        array[row, : len(numbers)] += numbers

    kernels = importlib.import_module("rlvc._core.jit")
    kernels.prefetch, kernels.add_to_row = lambda array, index: None, add_to_row


@dataclass
class Sandbox:
    """A copy of the working tree in which mutants are tested."""

    folder: Path
    limit: int
    seconds: dict[str, float] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def start(self, files: Sequence[str], mutant: Mutant | None = None) -> int:
        """Fork a process that runs the tests of some files until one fails; return its PID."""
        order = sorted(self.seconds, key=lambda name: (-self.kills[name], self.seconds[name]))
        pid = os.fork()
        if pid:
            return pid
        try:
            self.run(files, order, mutant)
        finally:  # never back into the loop that forked
            os._exit(1)

    def run(self, files: Sequence[str], order: Sequence[str], mutant: Mutant | None) -> None:
        """Run the tests of some files in this process, and end it."""
        os.chdir(self.folder)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        if mutant is not None:
            sys.meta_path.insert(0, Importer(mutant))
            signal.setitimer(signal.ITIMER_PROF, self.limit)  # processor time
            signal.alarm(10 * self.limit)  # for mutants that wait forever
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.path.insert(0, str(self.folder / "src"))
        replace_intrinsics()
        watch = Watch(order, self.folder / str(os.getpid()))
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin",
             # These tests need neither conftest nor rewritten asserts, which start slowly.
             "-m", "", "--noconftest", "--assert=plain", "-k", f"not ({LEFT_OUT})", *files],
            plugins=[watch],
        )  # fmt: skip
        raise SystemExit(f"pytest returned {code}, but should have exited.")

    def answer(self, pid: int, status: int) -> dict[str, Any]:
        """Return the result of a process."""
        path = self.folder / str(pid)
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        if os.WIFEXITED(status):
            raise SystemExit("A process ended without a result.")
        is_late = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return {"killer": "the clock" if is_late else "a crash"}

    def warm(self, files: Sequence[str]) -> None:
        """Check that all tests pass without a mutant, and import the modules that they import."""
        pid, status = os.waitpid(self.start(files), 0)
        answer = self.answer(pid, status)
        if answer["killer"]:
            raise SystemExit(
                f"{answer['killer']} fails without a mutant; run it with NUMBA_DISABLE_JIT=1."
            )
        self.seconds = answer["seconds"]
        for name in answer["modules"]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()

    def judge(self, mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, str]]:
        """Yield each mutant with the test that killed it, or an empty string."""
        waiting, running = list(mutants), dict[int, Mutant]()
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop(0)
                running[self.start(files_of(mutant.module), mutant)] = mutant
            pid, status = os.wait()
            killer: str = self.answer(pid, status)["killer"]
            self.kills[killer] += bool(killer)
            yield running.pop(pid), killer


def files_of(module: str) -> list[str]:
    """Return the files whose tests judge a module."""
    return [f"src/rlvc/{module}.py", *(f"tests/{name}.py" for name in TESTS[module])]


def report(results: Sequence[tuple[Mutant, str]]) -> None:
    """Print the surviving mutants and the counts."""

    def place(mutant: Mutant) -> tuple[int, int]:
        return list(TESTS).index(mutant.module), mutant.line

    for mutant in sorted((m for m, killer in results if not killer), key=place):
        print(mutant)
    print(f"\n{'module':28}{'mutants':>8}{'killed':>8}{'by timeout':>12}{'survived':>10}")
    for module in [*dict.fromkeys(mutant.module for mutant, _ in results), "all"]:
        killers = [killer for mutant, killer in results if module in (mutant.module, "all")]
        n_killed, n_late = sum(map(bool, killers)), killers.count("the clock")
        print(f"{module:28}{len(killers):8}{n_killed:8}{n_late:12}{len(killers) - n_killed:10}"
              f"   {100 * n_killed / len(killers):.1f}% killed")  # fmt: skip


def main() -> None:
    """Generate the mutants, test them and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--sample", type=int, default=0, help="mutants per module; 0: all")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds per mutant")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    asked = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutants") as name:
        folder = Path(name).resolve()
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, folder / part)
        shutil.copy(ROOT / "pyproject.toml", folder)
        mutants, unchanged = list[Mutant](), list[Mutant]()
        for module in asked.module:
            same, *made = mutants_of(module, folder / "src" / "rlvc" / f"{module}.py")
            unchanged.append(same)
            n = min(asked.sample, len(made)) or len(made)
            mutants += random.Random(0).sample(made, n) if n < len(made) else made
        if asked.list:
            print(*mutants, sep="\n")
            return
        sandbox = Sandbox(folder, asked.limit)
        sandbox.warm(list(dict.fromkeys(file for m in asked.module for file in files_of(m))))
        for same, killer in sandbox.judge(unchanged, asked.jobs):
            if killer:
                raise SystemExit(f"{killer} fails with {same.module} unchanged.")
        results = []
        for mutant, killer in sandbox.judge(mutants, asked.jobs):
            results.append((mutant, killer))
            if sys.stderr.isatty():
                print(f"\r{len(results)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    report(results)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
