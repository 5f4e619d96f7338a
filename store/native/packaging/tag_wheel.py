"""Names a wheel after what is in it. Runs while flightlog is built; it is not part of the installed package.

setuptools tags every project that *declares* an extension as a binary one. Ours is optional:

    what the build machine offers        the wheel
    a compiler                           cp311-abi3-PLATFORM, with the kernel
    no compiler                          py3-none-any, the pure reference alone
    a free-threaded Python (up to 3.14)  py3-none-any: it cannot load abi3
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel


class TagWheel(bdist_wheel):
    """`bdist_wheel` that forgets an optional extension which could not be compiled."""

    def finalize_options(self) -> None:
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            self._forget_extension()
        super().finalize_options()

    def run(self) -> None:
        # Compile before the tag is decided. A failure of an optional extension is a warning of build_ext, and leaves
        # no file; the commands that follow then find nothing to compile and nothing to install.
        self.run_command("build")
        if self.distribution.has_ext_modules():
            outputs = self.get_finalized_command("build_ext").get_outputs()
            if not all(Path(output).exists() for output in outputs):
                self._forget_extension()
                self.root_is_pure = True
        super().run()

    def _forget_extension(self) -> None:
        self.distribution.ext_modules = []
        self.py_limited_api = False
