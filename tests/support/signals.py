"""Signals as a child of a test finds them, whatever the suite itself was started with."""

from __future__ import annotations

import signal

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def default_signals() -> None:
    """A child's `preexec_fn`: the signals that end a program do so. A suite that `nohup`, or a shell in the
    background, started has some of them ignored, and a child inherits that."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
