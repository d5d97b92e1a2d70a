"""What identifies a run: the code that makes it and the values it is given, hashed by content.

Two runs with the same key give the same result, so a key may name a cached one. The key of a
function covers its source, its defaults, what it closes over, the globals it uses (functions and
classes of its own module by source, other values by content) and the source of the `mogp` package.
Code of further modules is covered by name only.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]


def run_key(function_key: str, point: Mapping[str, Any]) -> str:
    """Key of one run: the function's key and the values of the point, whatever their order."""
    texts = [
        _hash(name, *_describe(value, set(), f"grid value {name!r}"))
        for name, value in sorted(point.items())
    ]
    return _hash(function_key, *texts)


def function_key(function: Callable[..., Any]) -> str:
    """Key of a function, the same in every process and session until the code or what it uses
    changes.
    """
    return _hash(package_key(), *_describe(function, set()))


@cache
def package_key() -> str:
    """Key of the package: every source file, by path and content."""
    sources = sorted(PACKAGE.rglob("*.py"))
    return _hash(
        *(f"{path.relative_to(PACKAGE).as_posix()}\n{path.read_text('utf-8')}" for path in sources)
    )


def _describe(thing: Any, seen: set[int], what: str = "the function") -> Iterator[str]:
    """What the code is and does, as texts; each function and class it reaches once."""
    if isinstance(thing, partial):
        yield _value([thing.args, sorted(thing.keywords.items())], f"an argument bound in {what}")
        yield from _describe(thing.func, seen, what)
    elif isinstance(thing, MethodType):
        yield from _describe(thing.__func__, seen, what)
        yield from _describe(thing.__self__, seen, f"the object of {what}")
    elif isinstance(thing, FunctionType):
        yield from _describe_function(thing, seen)
    elif hasattr(thing, "__wrapped__"):
        yield from _describe(thing.__wrapped__, seen, what)
    elif isinstance(thing, ModuleType | BuiltinFunctionType):
        yield f"{what} is {thing.__name__}"
    elif isinstance(thing, type):
        yield from _describe_class(thing, seen)
    elif _is_covered(type(thing).__module__):
        yield _value(thing, what)
    else:
        yield _value(sorted(getattr(thing, "__dict__", {"value": thing}).items()), what)
        yield from _describe_class(type(thing), seen)


def _describe_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    name = f"{function.__module__}.{function.__qualname__}"
    yield name
    if id(function) in seen or _is_covered(function.__module__):
        return
    seen.add(id(function))
    yield _source(function)
    yield _value([function.__defaults__, function.__kwdefaults__], f"a default of {name}")
    for used, value in sorted(_reached(function).items()):
        if _is_local(value, function.__module__):
            yield used
            yield from _describe(value, seen, f"{used!r}, which {name} uses,")
        else:
            yield f"{used} is {value.__module__}.{value.__qualname__}"


def _describe_class(cls: type, seen: set[int]) -> Iterator[str]:
    """A class by its members: the text of a class is not to be had in a notebook, that of its
    methods is.
    """
    yield f"{cls.__module__}.{cls.__qualname__}"
    if id(cls) in seen or _is_covered(cls.__module__):
        return
    seen.add(id(cls))
    for base in cls.__bases__:
        yield f"derives from {base.__module__}.{base.__qualname__}"
        if base.__module__ == cls.__module__:
            yield from _describe_class(base, seen)
    for name, member in sorted(vars(cls).items()):
        method = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(method, FunctionType):
            yield name
            yield from _describe_function(method, seen)
        elif not name.startswith("__"):
            yield f"{name}={_value(member, f'{name!r} of class {cls.__qualname__}')}"


def _reached(function: FunctionType) -> dict[str, Any]:
    """The globals a function names, also inside its inner functions, and the variables it closes
    over.
    """
    instructions = (
        step for code in _codes(function.__code__) for step in dis.get_instructions(code)
    )
    names = {step.argval for step in instructions if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    reached = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return reached | {name: cell.cell_contents for name, cell in cells}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _source(function: FunctionType) -> str:
    """Source text; byte code where there is none, as for a function typed at a bare prompt."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        codes = _codes(function.__code__)
        return repr(
            [
                (c.co_code, c.co_names, [k for k in c.co_consts if not isinstance(k, CodeType)])
                for c in codes
            ]
        )


def _is_local(value: Any, module: str) -> bool:
    """Whether a value is looked into: all but functions and classes of other modules, which are
    known by name.
    """
    named = isinstance(value, FunctionType | type) or hasattr(value, "__wrapped__")
    return not named or value.__module__ == module


def _is_covered(module: str) -> bool:
    """Whether the code is of the package, whose key covers it, or of an installed or standard
    library.
    """
    if module.partition(".")[0] == PACKAGE.name or module in sys.builtin_module_names:
        return True
    origin = getattr(sys.modules.get(module), "__file__", None)
    return origin is not None and any(Path(origin).is_relative_to(folder) for folder in _LIBRARIES)


_LIBRARIES = [
    Path(path)
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
]


def _value(value: Any, what: str) -> str:
    from dask.tokenize import TokenizationError, tokenize

    try:
        return str(tokenize(value, ensure_deterministic=True))
    except TokenizationError as error:
        raise ValueError(
            f"{what} is a {type(value).__module__}.{type(value).__qualname__}, with no content that"
            " can be hashed, so a run that depends on it cannot be cached. Use plain values,"
            " arrays or data frames, and build the rest inside the function."
        ) from error


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]
