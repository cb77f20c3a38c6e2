"""Executors of `concurrent.futures`, made by functions of their own names: other processes find them here."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def processes():
    """Two, that are not forked: this process has threads, whose locks a copy of it would inherit as they are."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def threads():
    return ThreadPoolExecutor(2)
