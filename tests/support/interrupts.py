"""KeyboardInterrupt at a chosen place: the n-th point where CPython would call a signal handler.

CPython looks for signals after calls, at backward jumps and where a function begins or goes on; nowhere else. A test
that counts n up until nothing is interrupted any more has tried all of them.
"""

from __future__ import annotations

import dis
import gc
import sys
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

LOOKS_AFTER = ("CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


@cache
def _names(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


def _is_in_finalizer(frame: FrameType) -> bool:
    """Exceptions do not leave a `__del__`: what comes there never arrives."""
    caller: FrameType | None = frame
    while caller is not None:
        if caller.f_code.co_name == "__del__":
            return True
        caller = caller.f_back
    return False


class InterruptAt:
    """`with InterruptAt(7) as point: …` interrupts once, at the seventh point in the functions called in the block.

    The KeyboardInterrupt ends the block and is swallowed here; `point.fired` tells whether it came. The garbage
    collector waits meanwhile: who raises in a function that it calls (Hypothesis has one) ends the tracing that it came
    in the midst of, and CPython 3.11 then calls what is gone.
    """

    def __init__(self, nth: int) -> None:
        self._left = nth
        self._last: dict[FrameType, str] = {}
        self.fired = False
        self.place = ""

    def __enter__(self) -> Self:
        self._before, self._collects = sys.gettrace(), gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        sys.settrace(self._before)
        if self._collects:
            gc.enable()
        self._last.clear()
        return self.fired and isinstance(error, KeyboardInterrupt)

    def _point(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self.place = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            raise KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is InterruptAt.__exit__.__code__:
            return None
        if event == "call":
            if _is_in_finalizer(frame):
                return None
            frame.f_trace_opcodes = True
            self._point(frame)
        elif event == "opcode":
            before = self._last.get(frame, "")
            self._last[frame] = _names(frame.f_code).get(frame.f_lasti, "")
            if before.startswith(LOOKS_AFTER):
                self._point(frame)
        elif event == "exception":
            # A call that raised is followed by no look. At the PUSH_EXC_INFO that is, the interpreter could not take an
            # exception either: the handler around it would restore what was never put aside.
            self._last[frame] = ""
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace
