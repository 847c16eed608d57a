"""What the fixtures of the browser notice: each fault is planted, and must be found."""

from __future__ import annotations

import pytest

PAGE = """<!doctype html><html lang="en"><title>a page</title>
<meta http-equiv="content-security-policy" content="default-src 'none'; script-src 'unsafe-inline'">
<p>hello</p><script>{script}</script>"""
FAULTS = {
    "external request": "location = 'http://keyveil.test/'",
    "CSP violation": "document.body.append(Object.assign(new Image(), {src: 'data:,'}))",
    "page error": "setTimeout(() => { throw new Error('planted') })",
    "console": "console.error('planted')",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(watch, fault):
    page = watch.context().new_page()
    page.set_content(PAGE.format(script=FAULTS[fault]))
    for _ in range(100):
        if any(fault in line for line in watch.faults):
            break
        page.wait_for_timeout(50)
    assert any(fault in line for line in watch.faults)
    watch.faults.clear()
    page.close()
    watch.faults.clear()


def test_a_quiet_page_has_no_faults(watched_page, running_collector):
    watched_page.goto(running_collector.url)
    assert watched_page.title()
