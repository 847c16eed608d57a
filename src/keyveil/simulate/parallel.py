"""Measure: a contest between mechanisms at several epsilons, on all processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

from ..foundation.errors import ChannelError, PlanError
from .contest import Contest, ContestRow, NoEstimator


@dataclass(frozen=True)
class ContestResult:
    """The rows, in the order of epsilons and mechanisms, and why some mechanism has none."""

    rows: list[ContestRow]
    skipped: dict[tuple[str, str], str]
    """By mechanism and epsilon."""


def measure(
    contest: Contest,
    mechanisms: Sequence[str],
    epsilons: Sequence[str],
    *,
    lenient: bool = False,
    processes: int | None = None,
    moved: Callable[[int, int], None] | None = None,
) -> ContestResult:
    """Every mechanism at every epsilon; the same numbers whatever the number of processes.

    With ``lenient`` a mechanism that cannot be had for these keys is skipped, and the outcome says so.
    """
    jobs = [(name, epsilon) for epsilon in epsilons for name in mechanisms]
    found: dict[tuple[str, str], list[ContestRow]] = {}
    skipped: dict[tuple[str, str], str] = {}
    _ = contest.truth  # so that processes share it
    for done, (job, made) in enumerate(_worked(contest, jobs, processes), 1):
        if isinstance(made, list):
            found[job] = made
        else:
            missing = isinstance(made, NoEstimator)
            if not missing and (not lenient or job[0] == "auto"):
                raise made
            skipped[job] = str(made)
        if moved is not None:
            moved(done, len(jobs))
    if not found:
        raise PlanError(next(iter(skipped.values())))
    return ContestResult([row for job in jobs for row in found.get(job, [])], skipped)


Job = tuple[str, str]


def _worked(
    contest: Contest, jobs: list[Job], processes: int | None
) -> Iterator[tuple[Job, list[ContestRow] | PlanError]]:
    """Each job's rows, or why there are none, as they come."""
    workers = min(processes or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield job, _rows(contest, job)
        return
    _SHARED.append(contest)
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
            waiting = {pool.submit(_forked, job): job for job in jobs}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
    finally:
        _SHARED.pop()


_SHARED: list[Contest] = []
"""What forked processes find in their memory, so that tables are not sent to them."""


def _forked(job: Job) -> list[ContestRow] | PlanError:
    return _rows(_SHARED[-1], job)


def _rows(contest: Contest, job: Job) -> list[ContestRow] | PlanError:
    try:
        return contest.rows(*job)
    except PlanError as error:
        return error
    except ChannelError as error:
        return PlanError(str(error))
