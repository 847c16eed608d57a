"""Who may do what; every permission with a try to get around it."""

from __future__ import annotations

import re

import pytest
from desk import PLAN, Desk, fresh

from keyveil.service.client.service_url import is_loopback
from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.http.access import FORWARDED, require
from keyveil.service.collector.http.app import check_address
from keyveil.service.collector.http.routes import OPERATIONS
from keyveil.service.collector.http.server import ServeError
from keyveil.service.collector.process.problems import Problem
from keyveil.service.collector.store import store_at


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def path_of(operation):
    path = operation.path.replace("{name}", "menu").replace("{other}", "menu").replace("{file}", "x")
    return re.sub(r"{\w+:\w+}", "1", path)


@pytest.fixture
def guarded(desk):
    """A collector with a token of every kind."""
    desk.create()
    desk.create("other")
    desk.token = {
        "admin": admin.add_token(desk.store, "admin"),
        "analyst": admin.add_token(desk.store, "analyst"),
        "ingest": admin.add_token(desk.store, "ingest"),
        "menu analyst": admin.add_token(desk.store, "analyst", "menu"),
        "other analyst": admin.add_token(desk.store, "analyst", "other"),
        "other ingest": admin.add_token(desk.store, "ingest", "other"),
    }
    return desk


ALLOWED = {
    "admin": {"admin", "analyst"},
    "analyst": {"analyst"},
    "ingest": set(),
    "menu analyst": {"analyst"},
    "other analyst": set(),
    "other ingest": set(),
}


def test_every_route_asks_for_its_role(guarded):
    for operation in OPERATIONS:
        path = path_of(operation)
        if path.endswith("/live") or operation.method == "DELETE":
            continue  # tried below
        bare = guarded.ask(operation.method, path)
        if operation.role is None:
            assert bare.status_code not in (401, 403)
            continue
        assert bare.status_code == 401, path
        assert bare.headers["www-authenticate"] == "Bearer"
        for who, roles in ALLOWED.items():
            status = guarded.ask(operation.method, path, headers=bearer(guarded.token[who])).status_code
            whole = "{name}" not in operation.path and who == "menu analyst"
            if operation.role in roles and not whole:
                assert status not in (401, 403), (who, path)
            else:
                assert status == 403, (who, path)


def test_analysts_never_read_single_reports(guarded):
    """Segments are reports; counts are not."""
    for path in ("/segments", "/segments/1/1/x"):
        answer = guarded.get("/v1/collections/menu" + path, headers=bearer(guarded.token["analyst"]))
        assert answer.status_code == 403
    for path in ("/live",):
        assert guarded.get("/v1/collections/menu" + path).status_code == 401
    deleted = guarded.ask("DELETE", "/v1/collections/menu", headers=bearer(guarded.token["analyst"]))
    assert deleted.status_code == 403


def test_who_may_not_read_is_not_told_what_exists(guarded):
    for headers in ({}, bearer(guarded.token["other analyst"])):
        there = guarded.get("/v1/collections/menu/status", headers=headers)
        not_there = guarded.get("/v1/collections/nothing/status", headers=headers)
        assert there.status_code == not_there.status_code in (401, 403)
        assert there.content == not_there.content


def test_comparing_needs_both(guarded):
    path = "/v1/collections/menu/compare/other"
    assert guarded.get(path, headers=bearer(guarded.token["menu analyst"])).status_code == 403
    assert guarded.get(path, headers=bearer(guarded.token["analyst"])).status_code == 200


def test_metrics_need_a_token_and_health_does_not(guarded):
    assert guarded.get("/metrics").status_code == 401
    assert guarded.get("/metrics", headers=bearer(guarded.token["analyst"])).status_code == 200
    assert guarded.get("/metrics", headers=bearer(guarded.token["ingest"])).status_code == 403
    assert guarded.get("/health").status_code == 200
    assert guarded.get("/ready").status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer kv_0000000000000000_" + "A" * 43,
        "Bearer {id}_" + "A" * 43,
        "Bearer {token}x",
        "Bearer x{token}",
        "{token}",
        "Token {token}",
        "Bearer {cut}",
    ],
)
def test_no_token_but_the_right_one(guarded, value):
    token = guarded.token["admin"]
    text = value.format(token=token, id=token[:19], cut=token[:-1])
    answer = guarded.get("/v1/collections", headers={"authorization": text})
    assert answer.status_code == 401


def test_tokens_are_rotated_and_revoked_at_once(guarded):
    token = guarded.token["analyst"]
    name = token.split("_")[1]
    new = admin.rotate_token(guarded.store, name)
    assert guarded.get("/v1/collections", headers=bearer(token)).status_code == 401
    assert guarded.get("/v1/collections", headers=bearer(new)).status_code == 200
    admin.revoke_token(guarded.store, new.split("_")[1])
    assert guarded.get("/v1/collections", headers=bearer(new)).status_code == 401
    with pytest.raises(Exception, match="no working token"):
        admin.rotate_token(guarded.store, name)
    with pytest.raises(Exception, match="no token"):
        admin.revoke_token(guarded.store, "0" * 16)


def test_only_hashes_are_stored_and_nothing_is_logged(tmp_path):
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    token = admin.add_token(desk.store, "admin", label="me")
    desk.get("/v1/collections", headers=bearer(token))
    desk.get("/v1/collections", headers=bearer(token + "x"))
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("store.sqlite*"))
    secret = token.split("_", 2)[2]
    assert len(secret) == 43
    assert secret.encode() not in raw
    assert secret not in desk.log.getvalue()
    desk.close()


def test_ingest_tokens_where_a_collection_asks_for_them(guarded):
    guarded.ask(
        "PATCH", "/v1/collections/menu", json={"token": True}, headers=bearer(guarded.token["admin"])
    )
    body = {"plan": PLAN.hash, "epoch": guarded.epoch(), "reports": fresh(1)}
    path = "/v1/collections/menu/reports"
    assert guarded.post(path, json=body).status_code == 401
    for who, status in (("other ingest", 403), ("analyst", 403), ("ingest", 200), ("admin", 200)):
        assert guarded.post(path, json=body, headers=bearer(guarded.token[who])).status_code == status
    assert guarded.post("/v1/collections/other/reports", json=body).status_code == 200


def test_a_collection_that_asks_for_tokens_asks_even_when_there_are_none(file_desk):
    file_desk.create(token=True)
    assert file_desk.send(fresh(1)).status_code == 401


# -- without tokens: the own machine only ----------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8750"},
        {"host": "10.0.0.5"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_pages_that_reach_the_own_machine_may_not_rule_it(file_desk, headers):
    """A page of the web, by a name that points here or by the browser's own request."""
    file_desk.create()
    for method, path, body in (
        ("POST", "/v1/collections/menu/state", {"state": "closed"}),
        ("GET", "/v1/collections/menu/status", None),
        ("GET", "/metrics", None),
    ):
        answer = file_desk.ask(method, path, json=body, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["reason"] in ("host", "origin")
    assert file_desk.get("/v1/collections/menu").json()["state"] == "open"


@pytest.mark.parametrize("host", ["127.0.0.1:8750", "localhost:1", "[::1]:8750", "127.9.9.9"])
def test_the_own_machine_may(file_desk, host):
    file_desk.create()
    assert file_desk.get("/v1/collections/menu/status", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("name", sorted(FORWARDED))
def test_someone_elsewhere_behind_a_proxy_is_not_the_own_machine(file_desk, name):
    """Proxies name the collector's own address as Host, by default: it must not open the door."""
    file_desk.create()
    headers = {"host": "127.0.0.1:8750", name.decode(): "192.0.2.7"}
    for method, path, body in (
        ("POST", "/v1/collections/menu/state", {"state": "closed"}),
        ("GET", "/v1/collections/menu/tally", None),
        ("GET", "/metrics", None),
    ):
        answer = file_desk.ask(method, path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (403, "host")
    assert file_desk.send(fresh(1)).status_code == 200, "reports may come from everywhere"
    token = admin.add_token(file_desk.store, "admin")
    all_headers = {**headers, **bearer(token)}
    assert file_desk.get("/v1/collections/menu/tally", headers=all_headers).status_code == 200


def test_who_revokes_the_last_token_locks_the_door(file_desk):
    """It does not open it, neither at once nor after a restart."""
    file_desk.create()
    assert file_desk.get("/v1/collections").status_code == 200, "no token yet"
    token = admin.add_token(file_desk.store, "admin")
    admin.revoke_token(file_desk.store, token.split("_")[1])
    assert file_desk.get("/v1/collections").status_code == 401
    file_desk.die()
    again = Desk(file_desk.address, file_desk.folder)
    assert again.get("/v1/collections").status_code == 401
    again.close()


def test_a_deleted_collection_takes_its_tokens_but_opens_no_door(desk):
    desk.create()
    token = admin.add_token(desk.store, "analyst", "menu")
    assert desk.get("/v1/collections").status_code == 401
    admin.set_state(desk.store, "menu", "closed")
    admin.delete(desk.store, "menu")
    desk.die()
    again = Desk(desk.address, desk.folder)
    assert [token.revoked for token in again.store.control.tokens.values()] == [True]
    for headers in ({}, bearer(token)):
        assert again.get("/v1/collections", headers=headers).status_code == 401
    again.close()


def test_where_others_reach_it_there_is_no_way_in_without_a_token(tmp_path):
    store = store_at(str(tmp_path / "store.sqlite"))
    store.open()
    service = Service(store, tmp_path, exposed=True)
    with pytest.raises(Problem, match="a token is needed"):
        require(service, [(b"host", b"localhost")], "analyst")
    service.answers.close()
    store.close()


def test_loopback_is_recognised():
    assert all(is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "", "10.0.0.1", "example.org"))


def test_a_public_address_needs_an_admin_token(file_desk):
    store = file_desk.store
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ServeError, match="keyveil token create"):
            check_address(store, host)
    check_address(store, "127.0.0.1")
    admin.add_token(file_desk.store, "analyst")
    with pytest.raises(ServeError):
        check_address(store, "0.0.0.0")
    token = admin.add_token(file_desk.store, "admin")
    check_address(store, "0.0.0.0")
    admin.revoke_token(file_desk.store, token.split("_")[1])
    with pytest.raises(ServeError):
        check_address(store, "0.0.0.0")


def test_an_unforeseen_error_says_nothing(file_desk, monkeypatch):
    file_desk.create()

    def fail(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(file_desk.service, "public", fail)
    answer = file_desk.get("/v1/collections/menu")
    assert (answer.status_code, answer.json()["reason"]) == (500, "internal")
    assert "secret" not in answer.text
    assert "secret" not in file_desk.log.getvalue()
    assert "RuntimeError" in file_desk.log.getvalue()


def test_who_may_list_collections_is_told_the_nearest_name_and_nobody_else(guarded):
    guarded.store.refresh()
    tokens = {
        "all": admin.add_token(guarded.store, "analyst"),
        "one": admin.add_token(guarded.store, "analyst", "menu"),
    }
    answers = {}
    for who, token in tokens.items():
        headers = {"authorization": f"Bearer {token}"}
        answer = guarded.get("/v1/collections/menuu/status", headers=headers)
        answers[who] = (answer.status_code, answer.json()["detail"])
    assert answers["all"] == (404, "there is no collection 'menuu'; did you mean menu?")
    assert answers["one"][0] == 403
    assert "it takes one with the role analyst" in answers["one"][1]
    assert "menu?" not in answers["one"][1]
    public = guarded.get("/v1/collections/menuu")
    assert public.json()["detail"] == "there is no collection of this name"
    assert (
        "?q="
        in guarded.get(
            "/v1/collections/menu/queries", headers={"authorization": f"Bearer {tokens['all']}"}
        ).json()["detail"]
    )
