"""Clients that come and go at a server, for a long time: `make soak-serve MINUTES=30 CLIENTS=200`.

Says the memory of the server each minute, whether it stays flat, and whether every message that was sent came, and in
order within its message group. Exits with 1 if one of these is not so.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy

import flightlog
from flightlog.tests.serve.soak.clients import CONSUMERS, TOPIC
from flightlog.tests.serve.soak.ledger import Account
from flightlog.tests.support import signals

QUEUES, PER_PROCESS, OFFICIAL_PART = 8, 50, 0.1
SAMPLE_S, DRAIN_S, END_S = 60.0, 600.0, 120.0
WARM_UP = 1 / 3
GROWTH_MAX = 0.1
"""Memory is flat if its line grows by at most this part of its mean from the end of the warm-up to the end."""
MIB = 1 << 20


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, str]]:
    """A process `flightlog serve`: its id and address."""
    command = [sys.executable, "-P", "-m", "flightlog", "serve", str(folder / "store"), "--port", "0"]
    command += ["--topic", f"{TOPIC}:{QUEUES}:fifo", "--group", f"{CONSUMERS[1]}:fifo"]
    log = folder / "serve.log"
    start = signals.default_signals
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=start) as process:
        try:
            until_s = time.monotonic() + END_S
            while (found := re.search(r"127\.0\.0\.1:(\d+)", log.read_text())) is None:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError(f"the server did not start: {log.read_text()}")
                time.sleep(0.05)
            yield process.pid, f"127.0.0.1:{found[1]}"
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}: {log.read_text()[-4000:]}")
            process.terminate()
            if process.wait(END_S):
                raise RuntimeError(f"the server ended with {process.returncode}: {log.read_text()[-4000:]}")
        finally:
            process.kill()


def memory_mib(pid: int) -> tuple[float, float]:
    """Memory of a process: what it allocated, and that with the pages of files that it alone maps."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:] if ":" in line
    )
    kib = {name: int(text.split()[0]) for name, text in fields.items()}
    return kib["Anonymous"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


@contextmanager
def clients_running(address: str, folder: Path, count: int, seed: int) -> Iterator[list[subprocess.Popen[str]]]:
    official = round(count * OFFICIAL_PART)
    parts = [("connect", min(PER_PROCESS, count - official - at)) for at in range(0, count - official, PER_PROCESS)]
    parts += [("official", 1)] * official
    program = Path(__file__).with_name("clients.py")
    with ExitStack() as running:
        processes = []
        for number, (kind, clients) in enumerate(parts):
            words = [kind, address, str(folder / f"{number}.ledger"), str(clients), f"{seed}.{number}"]
            command = [sys.executable, "-P", str(program), *words]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            running.callback(process.wait)
            running.callback(process.kill)
            processes.append(process)
        yield processes


def tell(processes: Sequence[subprocess.Popen[str]]) -> None:
    """The senders, and the next time the receivers, are to end."""
    for process in processes:
        assert process.stdin is not None
        print("end", file=process.stdin, flush=True)


def growth(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Growth over samples of (seconds, MiB) after the warm-up: MiB a minute, and the part of the mean by which the line
    grows."""
    times, sizes = numpy.array(samples[int(len(samples) * WARM_UP) :]).T
    slope = float(numpy.polyfit(times, sizes, 1)[0])
    return slope * 60, slope * float(times[-1] - times[0]) / float(sizes.mean())


def drained(folder: Path, processes: Sequence[subprocess.Popen[str]]) -> Account:
    """What the clients have, as soon as it is all, or after a while."""
    until_s = time.monotonic() + DRAIN_S
    while True:
        account = Account(folder)
        if not any(account.missing(group) for group in CONSUMERS) or time.monotonic() > until_s:
            return account
        ended = [process.args for process in processes if process.poll()]
        if ended:
            raise RuntimeError(f"these clients ended with an error: {ended}")
        time.sleep(1)


def soak(folder: Path, minutes: float, clients: int, seed: int) -> int:
    samples = []
    begun_s = time.monotonic()
    with served(folder) as (pid, address), clients_running(address, folder, clients, seed) as processes:
        every_s = min(SAMPLE_S, minutes * 60 / 20)
        while (now_s := time.monotonic() - begun_s) < minutes * 60:
            allocated, private = memory_mib(pid)
            samples.append((now_s, allocated))
            print(f"{now_s / 60:5.1f} min: {allocated:.1f} MiB allocated, {private:.1f} MiB private", flush=True)
            failed = [process.args for process in processes if process.poll()]
            if failed:
                raise RuntimeError(f"these clients ended with an error: {failed}")
            time.sleep(min(every_s, minutes * 60 - now_s + 0.01))
        tell(processes)
        drained(folder, processes)
        tell(processes)
        codes = [process.wait(END_S) for process in processes]
    account = Account(folder)
    with flightlog.open_read_only(folder / "store") as store:
        damage = store.verify().findings
    slope, part = growth(samples)
    is_flat = part <= GROWTH_MAX
    print(f"{clients} clients, {minutes:g} minutes: {len(account.sent)} sent, {account.deliveries} deliveries")
    print(f"memory {'is flat' if is_flat else 'GROWS'}: {slope:+.2f} MiB a minute, {part:+.1%} after the warm-up")
    missing = {group: len(account.missing(group)) for group in CONSUMERS}
    wrong = account.out_of_order(CONSUMERS[1])
    print(f"sent and never received: {missing}; out of order: {len(wrong)} {wrong[:5]}")
    print(f"damage in the store: {len(damage)}; clients that failed: {sum(map(bool, codes))}")
    return 0 if is_flat and not any(missing.values()) and not wrong and not damage and not any(codes) else 1


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("--minutes", type=float, default=30)
    words.add_argument("--clients", type=int, default=200)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    with TemporaryDirectory() as folder:
        return soak(Path(folder), given.minutes, given.clients, given.seed)


if __name__ == "__main__":
    sys.exit(main())
