"""A page with the notice and a real client, whose requests are answered within the page."""

from __future__ import annotations

import json

from playwright.sync_api import Page, expect

from keyveil import Plan

FAILED = "Nothing was sent. Something on this page is not set up right."
SET_UP = """async (plans) => {
  const { Client, memoryStorage } = await import("/src/index.js");
  await import("/src/consent.js");
  const seconds = 86400;
  const world = { down: false, about: {}, refusal: null, sent: [] };
  const answered = (url, { body }) => {
    if (world.down) throw new TypeError("offline");
    const [, name] = /collections\\/(\\w+)/.exec(url);
    const plan = plans[name];
    if (!plan) return Response.json({ reason: "unknown" }, { status: 404 });
    if (body) {
      if (world.refusal) return Response.json({ reason: world.refusal.reason }, world.refusal);
      world.sent.push(name);
      return Response.json({ accepted: 1, failed: [] });
    }
    if (url.endsWith("/plan")) return new Response(JSON.stringify(plan));
    const epoch = { now: Math.floor(Date.now() / 1000 / seconds), seconds };
    return Response.json({ plan: plan.hash, state: "open", token: false, epoch, ...world.about });
  };
  const fetch = async (url, options) => answered(url, options);
  const storage = memoryStorage();
  const patience = { attempts: 1, first: 0.001, settle: 0, spread: 0 };
  const usual = { cap: 4, storage, patience, fetch };
  const device = (options) => new Client("http://127.0.0.1", { ...usual, ...options });
  const events = [];
  for (const kind of ["answer", "outcome", "decline", "error"])
    addEventListener(`keyveil-${kind}`, ({ detail }) =>
      events.push([kind, detail?.state ?? detail?.code ?? ""]));
  const notice = document.createElement("keyveil-consent");
  document.body.append(notice);
  Object.assign(window, { world, device, events, notice, client: device() });
}"""


def with_notice(page: Page, plans: dict[str, Plan]) -> Page:
    """The page with an empty notice that may ask about plans by name, and with ``client``, ``device``,
    ``world`` and ``events`` for tests.
    """
    page.evaluate(SET_UP, {name: json.loads(plan.dumps()) for name, plan in plans.items()})
    return page


def asked(page: Page) -> None:
    """Let the notice ask about Pepsi."""
    page.evaluate("() => Object.assign(notice, { client, collection: 'Pepsi', record: { Pepsi: 4 } })")


def shows(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_have_text(text)


def can_accept(page: Page) -> None:
    expect(page.get_by_role("button", name="Send one message")).to_be_enabled()
