"""Processes that work for another one."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """In a process of a pool: should the one that started it be killed, it must not stay."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
