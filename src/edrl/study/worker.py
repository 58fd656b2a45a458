"""`python -m edrl.study.worker STUDY NAME [CALLBACK ...]`: a process for one run.

It ends with the process that started it.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from edrl.named_modules import find_named_modules_in
from edrl.study.work import work


def _end_with_parent() -> None:
    """Standard input is a pipe from the driver: when it closes, the driver is gone, and the run
    saves and ends."""
    os.read(sys.stdin.fileno(), 1)  # unbuffered: a lock on a buffer would keep Python from ending
    # What shells start in the background ignores SIGINT until training begins.
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    find_named_modules_in(Path.cwd())
    try:
        study, name, *callbacks = sys.argv[1:]
        work(Path(study), name, callbacks=callbacks)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
