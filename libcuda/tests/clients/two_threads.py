"""What the clients in Python have in common: the kernel, and two threads one after the other."""

import sys
import threading
from pathlib import Path

COUNT = 1000
PTX = (Path(__file__).parent / "sum.ptx").read_bytes()


def run(work):
    """Calls `work(0)` and `work(1)`, each on a thread of its own, and exits."""
    failures = []

    def guarded(own):
        try:
            work(own)
            print(f"{own}: {COUNT} sums are right", flush=True)
        except BaseException:
            failures.append(own)
            raise

    for own in range(2):
        thread = threading.Thread(target=guarded, args=(own,))
        thread.start()
        thread.join()
    sys.exit(len(failures))
