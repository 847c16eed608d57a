"""The vectors, replayed by the library and by a tiny client written from docs/wire.md alone."""

from __future__ import annotations

import hashlib
import json
import runpy
from itertools import combinations
from math import comb, floor, isnan
from pathlib import Path

import pytest

from keyveil import REGISTRY, Coins, Plan, RecordError

FOLDER = Path(__file__).parents[2] / "vectors"
FILES = sorted(FOLDER.glob("*.json"))


def load(path: Path) -> dict:
    vector = json.loads(path.read_text("utf-8"))
    assert vector["format"] == "keyveil/vector/1"
    return vector


def test_every_mechanism_has_a_vector():
    assert set(REGISTRY) <= {path.stem for path in FILES}
    assert all(path.stat().st_size < 200_000 for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_library_replays_the_vector(path):
    vector = load(path)
    plan = Plan.parse(vector["plan"])
    assert len({tuple(case["cells"]) for case in vector["cases"]}) > 1
    for case in vector["cases"]:
        report = plan.report_as_client(case["record"], Coins.recorded(case["words"]), 0)
        assert list(report.cells) == case["cells"]
        try:  # a record that breaks no rule is told alike by the library call
            strict = plan.report(case["record"], Coins.recorded(case["words"]), 0)
        except RecordError:
            continue
        assert strict == report


def test_the_vectors_are_what_the_script_writes(tmp_path):
    """A published law never changes: whoever changes one must make a new name, not new vectors."""
    runpy.run_path(str(FOLDER / "make.py"))["main"](tmp_path)
    texts = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert texts == {path.name: path.read_text("utf-8") for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_client_written_from_the_docs_alone_agrees(path):
    vector = load(path)
    assert plan_hash(vector["plan"]) == vector["plan"]["hash"]
    for case in vector["cases"]:
        assert client(vector["plan"], case["record"], case["words"]) == case["cells"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_report_takes_exactly_the_words_of_its_view(path):
    vector = load(path)
    for case in vector["cases"]:
        with pytest.raises(IndexError):
            client(vector["plan"], case["record"], case["words"][:-1])


# -- the client: steps and names as in docs/wire.md, nothing imported from keyveil ------------------

ONE = 1 << 32


def plan_hash(plan: dict) -> str:
    body = {name: part for name, part in plan.items() if name != "hash"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def client(plan: dict, record: object, words: list[int]) -> list[int]:
    """Map, pick, encode, draw, place: the cells of one report."""
    if "parts" in plan:
        parts = [one_part(plan, part) for part in plan["parts"]]
        number = slice_of(words[0], [part["weight"] for part in parts])
        before = sum(all_cells(part) for part in parts[:number])
        return [before + cell for cell in client(parts[number], record, words[4:])]
    schema, count = plan["schema"], len(plan["schema"]["keys"])
    ranges = schema["ranges"] if len(schema["ranges"]) > 1 else schema["ranges"] * count
    held = mapped(schema["keys"], ranges, record)
    named = {"singles": [[k] for k in range(count)], "whole": [list(range(count))]}
    listed = plan["views"]["keys"]
    views = named[listed] if isinstance(listed, str) else listed
    view = pick(words[0], plan["views"]["weights"], len(views))
    channel_of = plan.get("channel_of", [0] * len(views))
    channel = plan["channels"][channel_of[view]]

    def digit(place: int, word: int) -> int:
        if schema["levels"] == 1:
            return 1
        low, high = (float(end) for end in ranges[place])
        t = (held[place] - low) / (high - low) * (schema["levels"] - 1)
        below = min(floor(t), schema["levels"] - 2)
        return below + 1 + (word < floor((t - below) * ONE))

    if plan["encode"] == "views":
        taken, state = len(views[view]), 0
        for i, place in enumerate(views[view]):
            word = words[1 + i]
            state = state * (schema["levels"] + 1) + (digit(place, word) if place in held else 0)
    elif plan["encode"] == "item":
        taken, places = 1, sorted(held)
        state = 1 + places[words[1] * len(places) >> 32] if places else 0
    elif plan["encode"] in ("items", "pair_items"):
        pairs = plan["encode"] == "pair_items"
        cap = next(c for c in range(1, 1 << 20) if (c * (c + 1) // 2 if pairs else c) == channel["held"])
        taken, state = 2 * cap, items_of(sorted(held), cap, words[1:], digit, count if pairs else 0)
    elif plan["encode"] == "padded":
        shape = channel["shape"]
        length = (channel["positions"] if shape == "symbols" else channel["states"] // 2) - count
        taken, state = 3, padded(sorted(held), count, length, words[1:4], digit)
    elif plan["encode"] == "any_value":
        taken, places, state = 2, sorted(held), 0
        number = words[1] * len(places) >> 32
        if places:
            state = digit(places[number], words[2])
    elif plan["encode"] == "size":
        taken, state = 0, size(len(held), states_of(channel))
    else:
        taken = count
        state = [
            digit(k, words[1 + k]) - 1 if k in held else int(words[1 + k] < ONE // 2)
            for k in range(count)
        ]
    align = 4 if channel["shape"] == "symbols" else 1
    start = -(-(1 + taken) // align) * align
    marks = DRAW[channel["shape"]](channel, state, words[start:])
    own = sum(1 + cells(plan["channels"][channel_of[u]]) for u in range(view))
    return [own, *(own + 1 + mark for mark in marks)]


def one_part(plan: dict, part: dict) -> dict:
    return {"schema": {**plan["schema"], "levels": part["levels"]}, **part}


def all_cells(plan: dict) -> int:
    count, listed = len(plan["schema"]["keys"]), plan["views"]["keys"]
    views = {"singles": count, "whole": 1}[listed] if isinstance(listed, str) else len(listed)
    return sum(1 + cells(plan["channels"][c]) for c in plan.get("channel_of", [0] * views))


def padded(places: list[int], count: int, length: int, words: list[int], digit) -> int:
    pick_word, dummy_word, round_word = words
    number = pick_word * max(len(places), length) >> 32
    if number < len(places):
        return 2 * places[number] + digit(places[number], round_word) - 1
    dummy = dummy_word * length >> 32
    return 2 * (count + dummy) + (round_word < ONE // 2)


def size(h: int, states: int) -> int:
    if h < 8:
        return min(h, states - 1)
    e = h.bit_length() - 1
    return min(4 * (e - 1) + (h >> (e - 2)) - 4, states - 1)


def states_of(channel: dict) -> int:
    return len(channel["rows"]) if channel["shape"] == "table" else channel["states"]


def items_of(places: list[int], cap: int, words: list[int], digit, pairs: int) -> list[int]:
    h, picks, items = len(places), [], []
    for i in range(min(cap, h)):
        last = h - min(cap, h) + i
        number = words[i] * (last + 1) >> 32
        picks.append(last if number in picks else number)
        items.append((places[picks[i]], digit(places[picks[i]], words[cap + i])))
    state = [2 * place + x - 1 for place, x in items]
    if pairs:
        for (a, x), (b, y) in combinations(sorted(items), 2):
            rank = a * (2 * pairs - a - 1) // 2 + b - a - 1
            state.append(2 * pairs + 4 * rank + 2 * (x - 1) + y - 1)
    return state


def mapped(keys: list[str], ranges: list[list[str]], record: object) -> dict[int, float]:
    pairs = list(record.items()) if isinstance(record, dict) else record
    if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
        return {}
    held: dict[int, float] = {}
    for key, value in pairs:
        if key not in keys or keys.index(key) in held:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
            continue
        low, high = (float(end) for end in ranges[keys.index(key)])
        held[keys.index(key)] = min(max(float(value), low), high)
    return held


def pick(word: int, weights: object, count: int) -> int:
    return word * count >> 32 if weights == "even" else slice_of(word, weights)


def slice_of(word: int, weights: list[int]) -> int:
    end = 0
    for place, weight in enumerate(weights):
        end += weight
        if word < end:
            return place
    raise AssertionError("weights sum to 2^32")


def cells(channel: dict) -> int:
    shape = channel["shape"]
    if shape == "table":
        return len(channel["rows"][0])
    if shape == "symmetric":
        return channel["states"]
    if shape in ("collision", "coco"):
        return channel["pool"] * channel["cells"]
    if shape == "hash":
        return channel["pool"] * len(channel["inner"]["rows"][0])
    if shape == "product":
        return cells(channel["inner"]) ** channel["digits"]
    if shape == "subset":
        outputs = comb(channel["states"], channel["size"])
        return outputs if outputs <= 4096 else channel["states"]
    if shape == "halfspace":
        return 1 << channel["signs"] if 1 << channel["signs"] <= 4096 else channel["signs"]
    letters, positions = len(channel["laws"][0]), channel["positions"]
    outputs = letters**positions
    return outputs if outputs <= 4096 else positions * (letters - 1)


def table(channel: dict, state: int, words: list[int]) -> list[int]:
    return [slice_of(words[0], channel["rows"][state])]


def symmetric(channel: dict, state: int, words: list[int]) -> list[int]:
    states, keep, lie = channel["states"], channel["keep"], channel["lie"]
    rest = ONE - keep - (states - 1) * lie
    if words[0] < keep:
        return [state]
    over, heavy = words[0] - keep, rest * (lie + 1)
    steps = over // (lie + 1) if over < heavy else rest + (over - heavy) // lie
    return [(state + steps + 1) % states]


def product(channel: dict, state: int, words: list[int]) -> list[int]:
    inner, digits = channel["inner"], channel["digits"]
    states = states_of(inner)
    output = 0
    for place in range(digits):
        digit = state // states ** (digits - 1 - place) % states
        output = output * cells(inner) + DRAW[inner["shape"]](inner, digit, words[place:])[0]
    return [output]


def subset(channel: dict, state: int, words: list[int]) -> list[int]:
    states, size = channel["states"], channel["size"]
    chosen = [state] if words[0] < channel["show"] else []
    need = size - len(chosen)
    others = [other for other in range(states) if other != state]
    for place, other in enumerate(others):
        if words[1 + place] < (need << 32) // (states - 1 - place):
            chosen.append(other)
            need -= 1
    if comb(states, size) > 4096:
        return sorted(chosen)
    return [list(combinations(range(states), size)).index(tuple(sorted(chosen)))]


def symbols(channel: dict, state: int, words: list[int]) -> list[int]:
    laws, positions, silent = channel["laws"], channel["positions"], channel["silent"]
    shown = []
    for p in range(positions):
        first = p // 32 * 32
        r = min(32, positions - first)
        number = 0
        for j in range(32):
            bit = j * r + p - first
            number |= (words[first + bit // 32] >> bit % 32 & 1) << (31 - j)
        i, m = state - silent, len(laws) - 1
        law = laws[1 + i % m] if i >= 0 and i // m == p else laws[0]
        shown.append((slice_of(number, [*law[1:], law[0]]) + 1) % len(law))
    letters = len(laws[0])
    if letters**positions <= 4096:
        return [sum(s * letters**p for p, s in enumerate(shown))]
    return [p * (letters - 1) + s - 1 for p, s in enumerate(shown) if s]


def mixed(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D % ONE
    x ^= x >> 15
    x = x * 0x846CA68B % ONE
    return x ^ x >> 16


def hashed(channel: dict, state: int, words: list[int]) -> list[int]:
    rows = channel["inner"]["rows"]
    t = len(rows[0])
    silent = len(rows) - t
    seed = words[0] * channel["pool"] >> 32
    item = mixed((state - silent + 0x9E3779B9) % ONE)
    cell = mixed(mixed(seed ^ channel["salt"]) ^ item) * t >> 32
    row = t if state < silent else cell
    return [seed * t + slice_of(words[1], rows[row])]


def collision(channel: dict, state: list[int], words: list[int]) -> list[int]:
    t, high = channel["cells"], channel["high"]
    seed = words[0] * channel["pool"] >> 32
    base = mixed(seed ^ channel["salt"])
    z = sorted({mixed(base ^ mixed((item + 0x9E3779B9) % ONE)) * t >> 32 for item in state})
    j, word = len(z), words[1]
    if word < j * high:
        return [seed * t + z[word // high]]
    over, (low, rest) = word - j * high, divmod(ONE - j * high, t - j)
    heavy = rest * (low + 1)
    number = over // (low + 1) if over < heavy else rest + (over - heavy) // low
    return [seed * t + [cell for cell in range(t) if cell not in z][number]]


def coco(channel: dict, state: list[int], words: list[int]) -> list[int]:
    t, high, low = channel["cells"], channel["high"], channel["low"]
    seed, word = words[0] * channel["pool"] >> 32, words[1]
    base = mixed(seed ^ channel["salt"])
    dummies = [words[2 + i] for i in range(channel["held"])]
    best: dict[int, tuple[int, int, int, int]] = {}
    for i in range(channel["held"]):
        item = state[i] if i < len(state) else None
        key = None if item is None else mixed((item // 2 + 0x9E3779B9) % ONE)
        v, rank = divmod((dummies[i] if key is None else mixed(base ^ key)) * t, ONE)
        cell = v if item is None or item % 2 else (v + t // 2) % t
        claim = (rank, v, item or 0, cell)
        pair = v % (t // 2)
        best[pair] = min(best.get(pair, claim), claim)
    z = sorted(claim[3] for claim in best.values())
    j = len(z)
    if word < j * high:
        return [seed * t + z[word // high]]
    if word < j * (high + low):
        return [seed * t + (z[(word - j * high) // low] + t // 2) % t]
    over, (weight, rest) = word - j * (high + low), divmod(ONE - j * (high + low), t - 2 * j)
    heavy = rest * (weight + 1)
    number = over // (weight + 1) if over < heavy else rest + (over - heavy) // weight
    others = [cell for cell in range(t) if cell % (t // 2) not in best]
    return [seed * t + others[number]]


def halfspace(channel: dict, state: list[int], words: list[int]) -> list[int]:
    signs = channel["signs"]
    side = words[0] < channel["keep"]
    z = [words[1 + j // 32] >> j % 32 & 1 for j in range(signs)]
    agree = 2 * sum(a == b for a, b in zip(z, state, strict=True)) - signs
    if agree and (agree > 0) != side:
        z = [1 - bit for bit in z]
    if 1 << signs <= 4096:
        return [sum(bit << j for j, bit in enumerate(z))]
    return [j for j, bit in enumerate(z) if bit]


DRAW = {
    "table": table,
    "product": product,
    "subset": subset,
    "symmetric": symmetric,
    "symbols": symbols,
    "hash": hashed,
    "halfspace": halfspace,
    "collision": collision,
    "coco": coco,
}
