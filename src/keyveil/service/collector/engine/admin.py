"""Administration of collections and tokens. Each operation is one exclusive transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ....foundation.errors import FinishedError, KeyveilError, PlanError
from ....plan.audit import audit
from ....plan.plan import Plan
from ....plan.tally import Tally
from ..process.problems import Problem
from ..store import Session, Store, tokens
from ..store.collection import STATES, Collection, Control, Round, Terms, checked_name
from ..store.tokens import ROLES


def create(
    store: Store, name: str, plan: object, terms: Mapping[str, Any], now: float, state: str = "open"
) -> Collection:
    """Create a collection with a plan that proves its epsilon."""
    checked_name(name)
    chosen = Terms.of(terms)
    if state not in ("open", "paused"):
        raise Problem("invalid", "a new collection is open or paused")
    if chosen.closes is not None and chosen.closes <= now:
        raise Problem("invalid", "the closing date has passed: give a later one")
    first_plan = checked_plan(plan)

    def work(session: Session, control: Control) -> int:
        if name in control.collections:
            raise Problem("exists", "there is a collection of this name")
        if chosen.replaces is not None and chosen.replaces not in control.collections:
            raise Problem("unknown", "the collection that this one replaces is unknown")
        row = session.rows(
            "insert into collections (name, state, terms, closed_before, made) "
            "values (?, ?, ?, ?, ?) returning id",
            (name, state, json.dumps(chosen.document()), chosen.first_open(now), int(now)),
        )
        session.run(
            "insert into rounds (collection, number, plan, closed, document) values (?, 1, ?, 0, ?)",
            (row[0][0], first_plan.hash, first_plan.dumps()),
        )
        return int(row[0][0])

    store.add_collection(work)
    return store.control.named(name)


def warnings_of(control: Control, collection: Collection) -> list[str]:
    """Warnings for whoever created a collection."""
    plans = {round_.plan for round_ in collection.rounds}
    same = [
        other.name
        for other in control.collections.values()
        if other.id != collection.id and plans & {round_.plan for round_ in other.rounds}
    ]
    if not same:
        return []
    names = ", ".join(map(repr, same[:5])) + (" and others" if len(same) > 5 else "")
    return [
        f"this is also the plan of {names}: a device answers a plan once, so it sends its report to the "
        "collection that asks first, and nothing to any other"
    ]


def checked_plan(document: object) -> Plan:
    """A plan whose integers prove its epsilon. If it belongs to a chain, it must be the first round."""
    if not isinstance(document, str | bytes | dict):
        raise Problem("invalid", "'plan' is a plan's document")
    try:
        verdict = audit(document)
    except KeyveilError as error:
        raise Problem("invalid", f"the plan is refused: {error}") from None
    if verdict.plan is None or verdict.findings:
        raise Problem("invalid", f"the plan is refused: {verdict.findings[0]}")
    if verdict.plan.chain is not None and verdict.plan.chain["round"] != 1:
        raise Problem("invalid", "a collection begins with the first round of a chain")
    return verdict.plan


def set_state(store: Store, name: str, state: str) -> Collection:
    """Open, pause or close a collection; a closed one stays closed."""
    if state not in STATES:
        raise Problem("invalid", f"a state is one of {', '.join(STATES)}")

    def work(session: Session, control: Control) -> None:
        collection = control.named(name)
        if collection.state == "closed" and state != "closed":
            raise Problem("state", "a closed collection stays closed: create a new one")
        session.run("update collections set state = ? where id = ?", (state, collection.id))

    store.change(work, name)
    return store.control.named(name)


def set_terms(store: Store, name: str, given: Mapping[str, Any]) -> Collection:
    """Change terms that are allowed to change."""

    def work(session: Session, control: Control) -> None:
        collection = control.named(name)
        terms = collection.terms.changed(given)
        store.return_shares(session, collection)
        reports = store.reports(session, collection.round)
        if "people" in given and terms.people is not None and reports > terms.people:
            raise Problem(
                "state",
                f"people={terms.people} is below the {reports} reports that the round has: give a "
                "larger number, or pause or close the collection to take no more",
            )
        document = json.dumps(terms.document())
        session.run("update collections set terms = ? where id = ?", (document, collection.id))

    store.change(work, name)
    return store.control.named(name)


def check_deletable(store: Store, name: str) -> Collection:
    """A collection that is closed; only such a one can be deleted."""
    collection = store.control.named(name)
    if collection.state != "closed":
        raise Problem("state", f"{name} is {collection.state}: close it before you delete it")
    return collection


def delete(store: Store, name: str) -> Collection:
    """Delete a closed collection with all its data."""
    store.refresh()
    collection = check_deletable(store, name)
    every = store.control.tokens.values()
    if every and all(token.collection == collection.id for token in every):
        # deleting the last token would open the collector to everyone; a token that nobody has stays
        _, name, _ = add_token(store, "admin", label="keeps the door locked").split("_", 2)
        revoke_token(store, name)
    store.delete(collection)
    return collection


def next_round(store: Store, name: str, empty: bool = False) -> Collection:
    """Close the current round, make the next plan from its tally, and open the next round.

    A round without reports is refused unless ``empty``: it cannot be taken back, and the next plan would
    know nothing.

    The round is closed first, in its own transaction, so its tally is final. If the process ends in
    between, calling this again continues from there.
    """
    store.refresh()
    current = store.control.named(name).round
    plan = store.book(current).plan
    # fails here if there is no next plan, before anything is closed
    tally = Tally(plan, store.counts_stored(current))
    _next_plan(plan, tally)
    if not tally.reports and not empty:
        raise Problem(
            "state",
            f"round {current.number} has no reports, so its answers cannot make the next plan: wait for "
            "reports, or go on with --empty (?empty=true over HTTP)",
        )

    def close(session: Session, control: Control) -> None:
        collection = control.named(name)
        if collection.state == "closed":
            raise Problem("closed_collection")
        if collection.round.id != current.id:
            raise Problem("state", "another round has started in the meantime")
        session.run("update rounds set closed = 1 where id = ?", (current.id,))

    store.change(close, name)
    following = _next_plan(plan, Tally(plan, store.counts_stored(current)))

    def begin(session: Session, control: Control) -> None:
        collection = control.named(name)
        if collection.round.id != current.id:
            raise Problem("state", "another round has started in the meantime")
        session.run(
            "insert into rounds (collection, number, plan, closed, document) values (?, ?, ?, 0, ?)",
            (collection.id, current.number + 1, following.hash, following.dumps()),
        )

    store.change(begin, name)
    return store.control.named(name)


def reopen(store: Store, name: str, epoch: int, now: float) -> Collection:
    """Reopen an epoch that was closed in error, and those after it, while their ids are kept."""

    def work(session: Session, control: Control) -> None:
        collection = control.named(name)
        if not 0 <= epoch < collection.closed_before:
            raise Problem("state", f"epoch {epoch} is not closed")
        if collection.terms.over(epoch, store.agreed_time(session, now)):
            raise Problem("state", f"epoch {epoch} and its grace have ended: it would close again")
        for round_ in collection.rounds:
            if not _has_ids(store, session, round_, epoch, collection.closed_before):
                raise Problem("state", "the ids are gone: a report could count twice")
        session.run("update collections set closed_before = ? where id = ?", (epoch, collection.id))

    store.change(work, name)
    return store.control.named(name)


def _has_ids(store: Store, session: Session, round_: Round, first: int, end: int) -> bool:
    """Whether the ids of all epochs from ``first`` to before ``end`` can still be looked up."""
    at = (round_.id, first, end)
    span = "round = ? and epoch >= ? and epoch < ?"
    if session.rows(f"select 1 from sealed where {span}", at):
        return False
    logged = session.rows(f"select distinct epoch from segments where {span}", at)
    names = dict(session.rows(f"select epoch, name from id_keys where {span}", at))
    return all(row[0] in names and store.keys.read(str(names[row[0]])) for row in logged)


def _next_plan(plan: Plan, tally: Tally) -> Plan:
    try:
        return plan.next(tally)
    except (FinishedError, PlanError) as error:
        raise Problem("finished", str(error)) from None


# -- tokens ----------------------------------------------------------------------------------------


_NEW_TOKEN = (
    "insert into tokens (id, role, collection, digest, label, revoked) values (?, ?, ?, ?, ?, 0)"
)


def add_token(store: Store, role: str, collection: str | None = None, label: str = "") -> str:
    """Create a token. Its text is returned once and never stored."""
    if role not in ROLES:
        raise Problem("invalid", f"a role is one of {', '.join(ROLES)}")
    if not isinstance(label, str) or len(label) > 100 or not label.isprintable():
        raise Problem("invalid", "a label has at most 100 printable characters")
    if role == "admin" and collection is not None:
        raise Problem("invalid", "an admin's token is for all collections")
    name, digest, text = tokens.fresh()

    def work(session: Session, control: Control) -> None:
        number = None if collection is None else control.named(collection).id
        session.run(_NEW_TOKEN, (name, role, number, digest, label))

    store.change(work)
    return text


def revoke_token(store: Store, name: str) -> None:
    """Revoke a token. It stops working at once."""

    def work(session: Session, control: Control) -> None:
        if name not in control.tokens:
            raise Problem("unknown", "there is no token of this id")
        session.run("update tokens set revoked = 1 where id = ?", (name,))

    store.change(work)


def rotate_token(store: Store, name: str) -> str:
    """Replace a token by a new one with the same rights. The old one stops working at once."""
    new, digest, text = tokens.fresh()

    def work(session: Session, control: Control) -> None:
        old = control.tokens.get(name)
        if old is None or old.revoked:
            raise Problem("unknown", "there is no working token of this id")
        session.run("update tokens set revoked = 1 where id = ?", (name,))
        session.run(_NEW_TOKEN, (new, old.role, old.collection, digest, old.label))

    store.change(work)
    return text
