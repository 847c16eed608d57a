"""What a device does under a plan: pick a view, encode the record, draw from the channel."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.coins import Coins, Person, given_coins
from ..foundation.errors import PlanError
from ..foundation.stream import Stream
from ..people.people import People
from ..people.schema import Record
from .plan_document import PlanDocument
from .plan_parts import WORDS_BEFORE, first_views, perturb_parts, pick_parts
from .report import Report, Reports

if TYPE_CHECKING:
    from ..people.frame_columns import FrameColumns, Stated
    from .plan import Plan
    from .tally import Tally

AT_ONCE = 1 << 18
"""Number of people whose reports are in memory at a time."""
AT_FIRST = 128
"""Words of one report that are computed at once; of more words, most are not needed."""
_NO_ADDRESS = np.zeros((1, 4), np.uint32)
"""One person's address where the stream is known already."""


class DeviceSide(PlanDocument):
    """From a record to a report, for one person or for many."""

    def report(self, record: Record, coins: Coins | None = None, person: Person | None = None) -> Report:
        """One person's report; a record that breaks a rule is refused before the first coin.

        Without ``coins`` they are fresh from the operating system. With coins of your own, name the
        ``person``: the same stated coins, person and plan always give the same report. Secure coins
        are new ones in every call.
        """
        return self._report(self.schema.checked(record), coins, person)

    def check(self, record: Record) -> list[str]:
        """The faults of an example record, one line each; for developers, see ``Schema.check``."""
        return self.schema.check(record)

    def report_as_client(
        self, record: object, coins: Coins | None = None, person: Person | None = None
    ) -> Report:
        """A report whatever the record holds, mapped as the plan states: never refuses."""
        return self._report(self.schema.mapped(record), coins, person)

    def _report(self, held: dict[int, float], coins: Coins | None, person: Person | None) -> Report:
        if coins is not None and person is None:
            raise PlanError("with coins of your own, name the person whose stream to draw from")
        own = Coins.secure() if coins is None else coins.for_reports(self.hash)
        few = self.most_words if self.most_words <= AT_FIRST else 0
        stream = Stream.of(own, 0 if person is None else person, few)
        people = People.one(held, _NO_ADDRESS)
        views, outputs = self.perturb(people, stream)
        return Report(self.hash, self.packing.cells(int(views[0]), outputs[0]))

    def privatise(
        self,
        people: Any,
        coins: Coins | None = None,
        *,
        person: Stated = ...,
        key: str | None = None,
        value: Stated = ...,
        wide: bool | None = None,
        everyone: Any = None,
    ) -> Reports:
        """The reports of many people: of ``People``, or of a pandas, Polars or Arrow frame.

        Columns and ``everyone`` are those of ``People.from_frame``. Without ``coins`` they are secure:
        new ones in every call, so that people of two batches share no words. With stated coins reports
        are the same as one by one, whatever the chunks.
        """
        from .batch import privatise

        everybody = self._everybody(people, everyone, self.schema.columns_of(person, key, value, wide))
        return privatise(self._plan, everybody, given_coins(coins).for_reports(self.hash))

    def collect(
        self,
        people: Any,
        coins: Coins | None = None,
        *,
        person: Stated = ...,
        key: str | None = None,
        value: Stated = ...,
        wide: bool | None = None,
        everyone: Any = None,
        progress: bool = True,
    ) -> Tally:
        """The tally of everyone's reports: privatise and add.

        ``people`` is a frame or ``People``. The columns of a frame are ``person``, ``key`` and
        ``value``, or with ``wide`` a column for each key; a schema that was made from the frame knows
        them. ``everyone`` is the number or the list of all people, if some have no row. Stated ``coins``
        repeat a run. A progress bar shows in a terminal or a notebook if there are many people.
        """
        from ..foundation.frame_output import library_of
        from ..foundation.progress_bar import progress_bar
        from .tally import Tally

        everybody = self._everybody(people, everyone, self.schema.columns_of(person, key, value, wide))
        tally, source = Tally(self._plan), given_coins(coins)
        tally.frame_library = library_of(people) or tally.frame_library
        with progress_bar(
            "people", len(everybody), progress and len(everybody) > AT_ONCE
        ) as on_progress:
            for done, chunk in enumerate(everybody.chunks(AT_ONCE), 1):
                tally.add(self.privatise(chunk, source))
                on_progress(min(done * AT_ONCE, len(everybody)))
        return tally

    def _everybody(self, people: Any, everyone: Any, columns: FrameColumns) -> People:
        """The people of a table, and those without rows."""
        if isinstance(people, People) and everyone is None:
            return people
        from ..people.tables.frame_people import people_of_frame

        return people_of_frame(self.schema, people, columns, everyone)

    def perturb(self, people: People, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        """Each person's view and output: pick, encode, draw."""
        if self.parts is not None:
            return perturb_parts(self._plan, people, stream)
        picked = self.views.pick(stream.words(0, 1)[:, 0])
        rest = picked, stream.skip(1), self.cap
        states = self.encoding.encode(self.schema, self.views, people, *rest)
        return picked, self.draw(picked, states, stream)

    def draw(self, picked: np.ndarray, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Each state through the channel of its view: output cells, or rows of marks."""
        if self.channel_of is None:
            return self.channels[0].draw(states, stream.skip(self._first_start))
        channel_of = np.array(self.channel_of)
        used = channel_of[picked]
        width = max(channel.cells for channel in self.channels)
        shape = len(picked) if self.layout.one_cell else (len(picked), width)
        outputs = np.zeros(shape, np.int64 if self.layout.one_cell else np.uint8)
        for number in np.unique(used):
            rows = np.flatnonzero(used == number)
            start = self.channel_start(self.channel_of.index(int(number)))
            channel = self.channels[number]
            drawn = channel.draw(states[rows], stream.only(rows).skip(start))
            if drawn.ndim == 1:
                outputs[rows] = drawn
            else:
                outputs[rows, : drawn.shape[1]] = drawn
        return outputs

    def channel_start(self, view: int) -> int:
        """Where the channel's words begin: after the view's word and the encoder's, aligned."""
        if self.parts is not None:
            plan, own = self.part_of(view)
            return WORDS_BEFORE + plan.channel_start(own)
        taken = 1 + self.encoding.words(self.schema, len(self.views.keys[view]), self.cap)
        align = self.view_channels[view].align
        return -(-taken // align) * align

    @cached_property
    def _first_start(self) -> int:
        """Where the words of a plan's only channel begin."""
        return self.channel_start(0)

    @cached_property
    def most_words(self) -> int:
        """The largest number of words that a report takes, whatever its view."""
        of = self.channel_of
        return max(self.words_of(view) for view in ([0] if of is None else map(of.index, set(of))))

    def words_of(self, view: int) -> int:
        """The number of words that a report of this view takes."""
        return self.channel_start(view) + self.view_channels[view].words

    def part_of(self, view: int) -> tuple[Plan, int]:
        """The plan of the part that a view belongs to, and the number of the view there."""
        if self.parts is None:
            return self._plan, view
        first = first_views(self.parts)
        number = int(np.searchsorted(first, view, side="right")) - 1
        return self.parts[number].plan, view - int(first[number])

    def pick(self, stream: Stream) -> np.ndarray:
        """The view that the words of each person pick."""
        if self.parts is None:
            return self.views.pick(stream.words(0, 1)[:, 0])
        numbers, first = pick_parts(self.parts, stream.words(0, 1)[:, 0]), first_views(self.parts)
        own = np.array([plan.pick(stream.skip(WORDS_BEFORE)) for plan in self.part_plans])
        return np.asarray(first[numbers] + own[numbers, np.arange(len(numbers))])

    @cached_property
    def picking_words(self) -> tuple[tuple[int, ...], np.ndarray]:
        """Which words pick the view, and for each view the lowest words that pick it, a row each."""
        if self.parts is None:
            return (0,), np.concatenate([[0], self.views.bounds]).astype(np.uint32)[:, None]
        ends = np.cumsum([0, *(part.weight for part in self.parts)]).tolist()
        rows = [
            np.stack([np.full(len(plan.views), end), plan.picking_words[1][:, 0]], axis=1)
            for end, plan in zip(ends, self.part_plans, strict=False)
        ]
        return (0, WORDS_BEFORE), np.concatenate(rows).astype(np.uint32)
