"""What the build of a wheel does beside packing files: it compiles the library of the engine, where it can.

`PROBSFA_NATIVE=0` in the environment leaves the library out, for a wheel that serves all machines.
"""

import os
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = "probsfa/statespace/engine/native"


class NativeLibrary(BuildHookInterface):
    """Compiles the library beside its sources, and has it packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are collected."""
        if self.target_name != "wheel":
            return
        made = runpy.run_path(str(Path(self.root) / NATIVE / "build.py"))
        if os.environ.get("PROBSFA_NATIVE") == "0":
            made["LIBRARY"].unlink(missing_ok=True)
            return
        reason = made["build"]()
        if reason:
            self.app.display_warning(f"probsfa is built without its compiled library: {reason}")
            return
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(f"{NATIVE}/{made['LIBRARY'].name}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}"
