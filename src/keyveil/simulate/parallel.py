"""Runs a contest between several mechanisms at several epsilons, on all processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

from ..foundation.errors import ChannelError, PlanError
from .contest import Contest, NoEstimator
from .contest_row import ContestRow
from .planner_ways import is_auto

Job = tuple[str, str]
"""A mechanism and an epsilon."""


@dataclass(frozen=True)
class ContestResult:
    """The rows, ordered by epsilon and mechanism, and the reasons for those that are missing."""

    rows: list[ContestRow]
    skipped: dict[Job, str]
    """By mechanism and epsilon: why there are no rows."""


def measure(
    contest: Contest,
    mechanisms: Sequence[str],
    epsilons: Sequence[str],
    *,
    lenient: bool = False,
    optional: Collection[str] = (),
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ContestResult:
    """Rows of every mechanism at every epsilon; they do not depend on the number of processes.

    A mechanism without any requested estimator is skipped. With ``lenient``, so is one that cannot be
    planned for these keys, and always if it is ``optional``. ``on_progress`` receives the number of
    finished jobs and of all jobs.
    """
    jobs = [(name, epsilon) for epsilon in epsilons for name in mechanisms]
    rows: dict[Job, list[ContestRow]] = {}
    skipped: dict[Job, str] = {}
    _ = contest.questions.truth  # computed here, so that processes share it
    for done, (job, result) in enumerate(_results(contest, jobs, processes), 1):
        if isinstance(result, list):
            rows[job] = result
        elif isinstance(result, NoEstimator) or job[0] in optional or (lenient and not is_auto(job[0])):
            skipped[job] = str(result)
        else:
            raise result
        if on_progress is not None:
            on_progress(done, len(jobs))
    if not rows:
        raise PlanError(next(iter(skipped.values())))
    return ContestResult([row for job in jobs for row in rows.get(job, [])], skipped)


def _results(
    contest: Contest, jobs: list[Job], processes: int | None
) -> Iterator[tuple[Job, list[ContestRow] | PlanError]]:
    """The rows of every job, or the error, in the order in which jobs finish."""
    workers = min(processes or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield job, _rows(contest, job)
        return
    _SHARED.append(contest)
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
            waiting = {pool.submit(_forked, job): job for job in jobs}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], future.result()
            finally:
                pool.shutdown(cancel_futures=True)  # after an error, no further job is started
    finally:
        _SHARED.pop()


_SHARED: list[Contest] = []
"""The contest that forked processes inherit, so that tables are not sent to them."""


def _forked(job: Job) -> list[ContestRow] | PlanError:
    return _rows(_SHARED[-1], job)


def _rows(contest: Contest, job: Job) -> list[ContestRow] | PlanError:
    try:
        return contest.rows(*job)
    except PlanError as error:
        return error
    except ChannelError as error:
        return PlanError(str(error))
