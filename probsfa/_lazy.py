"""Lazy import of public names."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["deprecated", "import_name", "modules_in_stub"]


def modules_in_stub(path: str) -> dict[str, str]:
    """Return the module of every name in a stub, by its lines ``from MODULE import NAME as NAME``."""
    modules = {}
    # Lines are split, because the imports of ast and pathlib would take most of the time.
    with open(path, encoding="utf-8") as stub:
        for line in stub:
            if line.startswith("from "):
                _, module, _, name, _, _ = line.split()
                modules[name] = module
    return modules


def import_name(
    namespace: dict[str, Any], modules: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported at first use.

    Parameters
    ----------
    namespace : dict
        The globals of the package.
    modules : dict of str
        Module from which each name is imported; for a submodule of the package, this is the package.
    """
    package = namespace["__name__"]

    def look_up(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:  # a module of this package
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(modules[name]), name)
        namespace[name] = value  # later access does not call this function
        return value

    return look_up, lambda: sorted(namespace["__all__"])


def deprecated(module: str, names: dict[str, tuple[str, str]]) -> Callable[[str], object]:
    """Return ``__getattr__`` of a module for names that were public in an earlier version.

    Parameters
    ----------
    module : str
        Name of the module.
    names : dict of (str, str)
        For each old name, the object as "module:name", and advice about a replacement.
    """

    def look_up(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        location, advice = names[name]
        module_name, _, new_name = location.partition(":")
        warnings.warn(
            f"{module}.{name} will be removed in version 2.0. {advice}", FutureWarning, stacklevel=2
        )
        return getattr(importlib.import_module(module_name), new_name)

    return look_up
