"""Names of packages that are looked up when they are first used."""

__all__ = ["homes_in_stub"]


def homes_in_stub(path: str) -> dict[str, str]:
    """Return the module of every name in a stub, by its lines ``from MODULE import NAME as NAME``."""
    homes = {}
    # Read by hand: ast and pathlib take longer to import than all the rest of this.
    with open(path, encoding="utf-8") as stub:
        for line in stub:
            if line.startswith("from "):
                _, module, _, name, _, _ = line.split()
                homes[name] = module
    return homes
