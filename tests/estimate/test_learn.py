"""Learners on exact laws give the known answers; on tallies they come close, and say when not."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, RecordError, Schema, Tally
from keyveil.estimate.learn import ChowLiu, Cube, DecisionTree, ExactEvidence, NaiveBayes, rules
from keyveil.estimate.learn.released import Released
from keyveil.estimate.learn.rules import CONTROLS, adjust
from keyveil.estimate.together.conditional import Conditionals
from keyveil.foundation.errors import QueryError
from keyveil.simulate.tallies import Population, simulate


def population(keys, records):
    schema = Schema.of(keys, 1, 5)
    return Population(schema, People.of_records(schema, records))


def private(law, epsilon, people, coins="learn", mechanism="pairs", run=0, **parameters):
    plan = Plan.of(law.schema, mechanism, epsilon, **parameters)
    return Conditionals(plan, simulate(plan, law, people, Coins.stated(coins), run))


@pytest.fixture(scope="module")
def meals():
    """Fries go with hamburgers: 30 of 40 who order one, 10 of the 60 others; Pepsi with neither."""
    records = []
    for pepsi in ({}, {"Pepsi": 4}):
        records += [{"Hamburger": 5, "Fries": 5, **pepsi}] * 30 + [{"Hamburger": 1, **pepsi}] * 10
        records += [{"Fries": 1, **pepsi}] * 10 + [dict(pepsi)] * 50
    return population(["Hamburger", "Fries", "Pepsi"], records)


@pytest.fixture(scope="module")
def wanted():
    """Target is held by exactly those who hold A and value B highly; C is a coin of its own."""
    records = []
    for a, b, c in product((None, 1, 5), repeat=3):
        record = {k: v for k, v in (("A", a), ("B", b), ("C", c)) if v is not None}
        records.append({**record, "Target": 5} if a is not None and b == 5 else record)
    return population(["A", "B", "C", "Target"], records)


@pytest.fixture(scope="module")
def chain():
    """k2 - k0 - k3 - k1, each held like the one before in 3 of 4 cases: all 16 states, exactly."""
    records = []
    for bits in product((0, 1), repeat=4):
        times = np.prod([3 if x == y else 1 for x, y in pairwise(bits)])
        names = ("k2", "k0", "k3", "k1")
        records += [{n: 5 for n, bit in zip(names, bits, strict=True) if bit}] * int(times)
    return population(["k0", "k1", "k2", "k3"], records)


@pytest.fixture(scope="module")
def independent():
    """Six keys, every one of the 64 sets equally often."""
    names = [f"k{i}" for i in range(6)]
    sets = product((0, 1), repeat=6)
    return population(names, [{n: 1 + 4 * (i % 2) for i, n in enumerate(names) if s[i]} for s in sets])


# -- rules -------------------------------------------------------------------------------------------


def test_exact_rules_are_the_known_ones(meals):
    result = rules(ExactEvidence(meals))
    (rule,) = result  # once, with both directions
    assert {rule.antecedent[0][0], rule.consequent} == {"Hamburger", "Fries"}
    assert rule.frequency.value == pytest.approx(0.75)
    assert rule.reverse.value == pytest.approx(0.75)
    assert rule.support.value == pytest.approx(0.3)
    assert rule.lift.value == pytest.approx(0.75 / 0.4)
    assert rule.adjusted == 0
    first, second = rule.antecedent[0][0], rule.consequent
    assert str(rule).startswith(f"of people with {first}, 0.75 [0.75, 0.75] also have {second}")


def test_rules_of_absence_and_of_two_conditions(meals):
    result = rules(ExactEvidence(meals), given="absent", keys=["Hamburger", "Fries"])
    assert result == []  # who orders no hamburger orders fries less often
    many = rules(ExactEvidence(meals), conditions=2, given="either")
    both = next(r for r in many if r.antecedent == (("Hamburger", True), ("Pepsi", False)))
    assert both.consequent == "Fries"
    assert both.frequency.value == pytest.approx(0.75)


def test_limits_shorten_the_list(meals):
    source = ExactEvidence(meals)
    assert rules(source, min_lift=2.0) == []
    assert rules(source, min_frequency=0.8) == []
    assert rules(source, min_support=0.31) == []
    assert rules(source, keys=["Hamburger", "Pepsi"]) == []


@pytest.mark.sampled
def test_private_rules_come_with_intervals_that_hold_the_truth(meals):
    result = rules(private(meals, 2, 200_000))
    (rule,) = result
    truths = ((rule.frequency, 0.75), (rule.reverse, 0.75), (rule.support, 0.3), (rule.lift, 1.875))
    for estimate, truth in truths:
        assert estimate.low <= truth <= estimate.high
        assert estimate.bounded
    assert rule.document()["antecedent"] == [{"key": rule.antecedent[0][0], "held": True}]
    assert rule.frequency.value >= rule.reverse.value


def test_adjusted_values_are_those_of_the_papers():
    p = [0.01, 0.04, 0.03, 0.5]
    hochberg = [0.04, 0.16 / 3, 0.16 / 3, 0.5]
    assert adjust(p, "benjamini_hochberg") == pytest.approx(hochberg)
    by = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert adjust(p) == pytest.approx(np.minimum(np.array(hochberg) * by, 1))
    assert len(adjust([])) == 0


@pytest.mark.sampled
def test_false_rules_are_rare_where_keys_are_independent(independent):
    """At 5 %, more than 6 of 40 runs with any false rule has a chance below 1 % (binomial).

    The broken twin lists every rule with p < 0.05; of 15 pairs, half of all runs have such a one.
    """
    wrong = {"benjamini_yekutieli": 0, "benjamini_hochberg": 0, "none": 0}
    for run in range(40):
        source = private(independent, 2, 20_000, "false", run=run)
        for control in CONTROLS:
            wrong[control] += bool(rules(source, control=control))
        likeliest = rules(source, false_discovery=0.999999, control="benjamini_hochberg")
        wrong["none"] += min((rule.p_value for rule in likeliest), default=1.0) <= 0.05
    assert all(wrong[control] <= 6 for control in CONTROLS), wrong
    assert wrong["none"] > 12, wrong


@pytest.mark.sampled
def test_rules_lists_what_passes_the_control(independent):
    source = private(independent, 2, 20_000, "false")
    assert rules(source) == []


# -- the tree ----------------------------------------------------------------------------------------


def test_tree_recovers_the_rule(wanted):
    tree = DecisionTree("Target", max_depth=2).fit(ExactEvidence(wanted))
    assert tree.score(wanted.people) == 1.0
    assert tree.how_ == "view"
    assert tree.predict([{"A": 1, "B": 5}, {"A": 1, "B": 1}, {"B": 5, "Target": 5}]).tolist() == [
        True,
        False,
        False,
    ]
    assert tree.text() == (
        "if B is high:\n"
        "    if A is held:\n"
        "        Target held 1.00 [1.00, 1.00] (22 % of people)\n"
        "    else:\n"
        "        Target held 0.00 [0.00, 0.00] (11 % of people)\n"
        "else:\n"
        "    Target held 0.00 [0.00, 0.00] (67 % of people)"
    )


def test_a_value_between_levels_goes_both_ways(wanted):
    tree = DecisionTree("Target", max_depth=2).fit(ExactEvidence(wanted))
    assert tree.predict_proba([{"A": 3, "B": 4}])[0] == pytest.approx([0.25, 0.75])


@pytest.mark.sampled
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_private_tree_equals_the_raw_one(wanted, criterion):
    """Depth two needs three keys together: views of three, or maximum entropy from pairs."""
    raw = DecisionTree("Target", 2, criterion=criterion).fit(ExactEvidence(wanted))
    for mechanism, how in (("triples", "view"), ("pairs", "maximum entropy")):
        tree = DecisionTree("Target", 2, criterion=criterion)
        tree.fit(private(wanted, 4, 1_000_000, mechanism=mechanism))
        assert tree.how_ == how
        assert (tree.predict(wanted.people) == raw.predict(wanted.people)).all()


@pytest.mark.sampled
def test_tree_of_noise_is_a_leaf(independent):
    """Where nothing goes together a root is split in 5 % of runs: over 10 of 40 once in 300,000."""
    sources = [private(independent, 1, 20_000, "leaf", run=run) for run in range(40)]

    def splits(significance: float) -> int:
        trees = (DecisionTree("k0", 1, significance=significance).fit(source) for source in sources)
        return sum(tree.root_.split is not None for tree in trees)

    assert splits(0.05) <= 10
    assert splits(0.9) > 10, "a level that is not kept is seen"


def test_tree_predicts_levels(wanted):
    tree = DecisionTree("Target", 2, levels=True).fit(ExactEvidence(wanted))
    assert tree.predict([{"A": 1, "B": 5}, {}]).tolist() == ["high", "absent"]
    assert tree.predict_proba([]).shape == (0, 3)
    assert (
        "Target absent 0.00 [0.00, 0.00], low 0.00 [0.00, 0.00], high 1.00 [1.00, 1.00]" in tree.text()
    )


# -- Bayes -------------------------------------------------------------------------------------------


def test_naive_bayes_is_bayes_where_keys_are_apart(meals):
    """Pepsi is apart from both others, so the posterior is the conditional frequency itself."""
    bayes = NaiveBayes("Fries").fit(ExactEvidence(meals))
    chances = bayes.predict_proba([{"Hamburger": 5}, {"Hamburger": 1, "Pepsi": 4}, {}])[:, 1]
    assert chances == pytest.approx([1.0, 0.0, 10 / 60], abs=1e-4)  # empty cells keep 1e-6 of apart
    assert bayes.score(meals.people) == pytest.approx(0.9)  # 10 of 100 hold Fries alone


@pytest.mark.sampled
def test_private_bayes_is_near_the_raw_one(meals):
    raw = NaiveBayes("Fries").fit(ExactEvidence(meals))
    bayes = NaiveBayes("Fries").fit(private(meals, 4, 1_000_000))
    records = [{"Hamburger": 5}, {"Pepsi": 4}, {}]
    # A standard error of a conditional frequency is near 0.003 here.
    assert bayes.predict_proba(records) == pytest.approx(raw.predict_proba(records), abs=0.015)


@pytest.mark.sampled
def test_chow_liu_recovers_a_chain(chain):
    edges = {frozenset(e) for e in (("k2", "k0"), ("k0", "k3"), ("k3", "k1"))}
    raw = ChowLiu().fit(ExactEvidence(chain))
    assert {frozenset(edge[:2]) for edge in raw.edges_} == edges
    tree = ChowLiu().fit(private(chain, 2, 500_000))
    assert {frozenset(edge[:2]) for edge in tree.edges_} == edges


def test_chow_liu_gives_the_law_of_the_chain(chain):
    """The chain is a tree, so likelihood, prediction and samples are those of the population."""
    model = ChowLiu().fit(ExactEvidence(chain))
    assert model.log_likelihood([{}]) == pytest.approx(np.log(27 / 128), abs=1e-3)
    assert model.predict_proba([{"k0": 5}], "k2")[0, 1] == pytest.approx(3 / 4, abs=1e-3)
    assert model.predict_proba([{"k0": 5}], "k3")[0, 1] == pytest.approx(1 / 2, abs=1e-3)
    assert model.predict([{"k0": 5, "k1": 5}], "k3", levels=True).tolist() == ["high"]
    drawn = model.sample(50_000, Coins.stated("sample"))
    assert len(drawn) == 50_000
    law = Population(chain.schema, drawn).law((0, 3))
    # Six standard errors of a share at 50,000 people are 0.013.
    assert law == pytest.approx(chain.law((0, 3)), abs=0.014)


@pytest.mark.sampled
def test_chow_liu_of_noise_has_no_edges(independent):
    model = ChowLiu().fit(private(independent, 1, 20_000, "edges"))
    assert model.edges_ == []
    assert model.predict_proba([{}], "k0").sum() == pytest.approx(1)


# -- the cube ----------------------------------------------------------------------------------------


def values(cube):
    return {tuple(words.values()): estimate.value for words, estimate in cube.cells()}


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", [None, "triples"])
def test_cube_sums_agree(meals, mechanism):
    """Roll up is the sum of cells, slices sum to one; exactly, whatever the law is."""
    source = ExactEvidence(meals)
    if mechanism:
        source = private(meals, 2, 100_000, mechanism=mechanism)
    cube = Cube(source, meals.schema.keys)
    assert cube.how == "view"
    cells = values(cube)
    assert len(cells) == 27
    assert sum(cells.values()) == pytest.approx(1)
    rolled = values(cube.roll_up("Pepsi"))
    for (burger, fries), share in rolled.items():
        parts = [cells[burger, fries, pepsi] for pepsi in ("absent", "low", "high")]
        assert share == pytest.approx(sum(parts))
    slices = [cube.slice(Pepsi=part).total.value for part in ("absent", "low", "high")]
    assert sum(slices) == pytest.approx(1)
    presence = cube.roll_up("Fries", "held").cell(Fries="held").value
    assert presence == pytest.approx(cube.cell(Fries=True).value)
    diced = cube.dice({"Fries": ["low", "high"], "Hamburger": ["held"]})
    assert diced.total.value == pytest.approx(cube.cell(Fries=True, Hamburger=True).value)
    assert all(e.low <= e.value <= e.high for _, e in cube.cells())


@pytest.mark.sampled
def test_a_cube_that_no_view_holds_has_ranges_and_a_guess(meals):
    """Ranges hold the truth; guesses come from one law, so that their sums agree."""
    cube = Cube(private(meals, 2, 100_000), meals.schema.keys, people=1000)
    truth = values(Cube(ExactEvidence(meals), meals.schema.keys))
    assert cube.how == "range"
    guesses = 0.0
    for words, cell in cube.cells():
        assert np.isnan(cell.value)
        assert cell.low - 1e-9 <= truth[tuple(words.values())] <= cell.high + 1e-9
        assert cell.low - 1e-9 <= cube.guess(words) <= cell.high + 1e-9
        guesses += cube.guess(words)
    assert guesses == pytest.approx(1)
    part = cube.slice(Pepsi="held").share(Hamburger="held", Fries="held")
    assert np.isnan(part.value)
    assert 0 <= part.low < part.high <= 1
    count = cube.count(Hamburger="held", Fries="held", Pepsi="held")
    assert count.high == pytest.approx(1000 * cube.cell(Hamburger=True, Fries=True, Pepsi=True).high)
    document = cube.document()
    assert document["how"] == "range"
    assert document["cells"][0]["share"]["value"] is None
    assert sum(cell["guess"] for cell in document["cells"]) == pytest.approx(1)
    assert str(cube.table()).splitlines()[0].split() == [*meals.schema.keys, "share", "people", "guess"]
    pair_cube = Cube(private(meals, 2, 100_000), ["Hamburger", "Fries"])
    assert pair_cube.document()["cells"][0]["guess"] is None
    assert pair_cube.guess(Fries="held") == pytest.approx(pair_cube.cell(Fries="held").value)


def test_exact_cube_cells_and_shares(meals):
    cube = Cube(ExactEvidence(meals), ["Hamburger", "Fries"], people=1000)
    assert cube.cell(Hamburger=True, Fries=True).value == pytest.approx(0.3)
    assert cube.count({"Hamburger": "held", "Fries": "held"}).value == pytest.approx(300)
    sliced = cube.slice(Hamburger="held")
    assert sliced.keys == ("Fries",)
    assert sliced.share(Fries="held").value == pytest.approx(0.75)
    title, headings, *_ = str(sliced).splitlines()
    assert title == "where Hamburger is held"
    assert headings.split() == ["Fries", "share", "of", "these", "people"]


@pytest.mark.sampled
def test_private_cube_intervals_hold_the_truth(meals):
    """27 cells at 99.9 %: all hold but in about 3 % of coins, which are fixed."""
    plan = Plan.of(meals.schema, "triples", 2)
    tally = simulate(plan, meals, 200_000, Coins.stated("cube"))
    cube = Cube(Conditionals(plan, tally, level=0.999), meals.schema.keys)
    truth = values(Cube(ExactEvidence(meals), meals.schema.keys))
    for words, estimate in cube.cells():
        assert estimate.low - 1e-12 <= truth[tuple(words.values())] <= estimate.high + 1e-12


# -- maximum entropy ---------------------------------------------------------------------------------


@pytest.mark.sampled
def test_noise_at_the_law_of_most_entropy_is_that_of_repeated_tallies(chain):
    """The regression slopes predict the spread of a three-key share over 40 tallies (within 35 %)."""
    weights = np.zeros((3, 3, 3, 1))
    weights[1:, 1:, 1:] = 1
    samples = [
        Released(private(chain, 2, 100_000, "entropy", run=run)).moments((2, 0, 3), weights)
        for run in range(40)
    ]
    spread = np.std([m.values[0] for m in samples])
    stderr = np.sqrt(np.mean([m.covariance[0, 0] for m in samples]))
    # The standard deviation of 40 draws has a relative error of 11 %; views share their margins.
    assert spread == pytest.approx(stderr, rel=0.35)


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.sampled
def test_a_state_that_looks_empty_still_has_an_interval(meals):
    """A range too: no one has low fries with a hamburger, but noise could hide a few."""
    for keys in (("Hamburger", "Fries"), ("Hamburger", "Fries", "Pepsi")):
        cube = Cube(private(meals, 2, 20_000), keys)
        assert cube.guess(Hamburger="held", Fries="low") < 0.05
        assert cube.cell(Hamburger="held", Fries="low").high > 0.005, cube.how


@pytest.mark.sampled
def test_documents_say_what_the_text_says(meals):
    source = private(meals, 4, 1_000_000)
    tree = DecisionTree("Fries", 1).fit(source)
    facts = tree.document()
    assert (facts["target"], facts["how"], facts["classes"]) == ("Fries", "view", ["absent", "held"])
    assert facts["root"]["key"] == "Hamburger"
    assert f"if Hamburger is {facts['root']['is']}:" in tree.text()
    assert "yes" not in facts["root"]["no"], "a leaf"
    cube = Cube(source, ["Hamburger", "Fries"], people=1000).slice(Hamburger="held")
    table = cube.document()
    assert (table["keys"], table["where"], table["how"]) == (["Fries"], {"Hamburger": "held"}, "view")
    for cell, (parts, share) in zip(table["cells"], cube.cells(), strict=True):
        assert cell["parts"] == parts
        assert cell["share"] == share.document()
        assert cell["count"]["value"] == pytest.approx(1000 * share.value)
    assert sum(cell["of_slice"]["value"] for cell in table["cells"]) == pytest.approx(1)


def test_errors_name_what_is_wrong(meals):
    source = ExactEvidence(meals)
    for ask in (
        lambda: DecisionTree("Frys").fit(source),
        lambda: NaiveBayes("Frys").fit(source),
        lambda: ChowLiu().fit(source).predict([{}], "Frys"),
        lambda: Cube(source, ["Frys"]),
        lambda: rules(source, keys=["Frys", "Pepsi"]),
    ):
        with pytest.raises(QueryError, match="no key 'Frys'; did you mean 'Fries'"):
            ask()
    cube = Cube(source, ["Fries", "Pepsi"])
    for ask, words in (
        (lambda: cube.slice(Fries="big"), "unknown part 'big'.*absent, held, low, high"),
        (lambda: cube.slice(Fries=True).roll_up("Fries"), "no axis of this cube; its axes: Pepsi"),
        (lambda: cube.dice({"Fries": ["held", "high"]}), "overlap"),
        (lambda: cube.roll_up("Fries", "some"), "all or held"),
        (lambda: cube.count(), "people"),
        (lambda: Cube(source, []), "one key or more"),
        (lambda: rules(source, given="some"), "held, absent, either"),
        (lambda: rules(source, control="none"), "unknown control"),
        (lambda: rules(source, false_discovery=0), "between 0 and 1"),
        (lambda: rules(source, min_lift=0), "above 0"),
        (lambda: rules(source, conditions=0), "at least 1"),
        (lambda: DecisionTree("Fries", criterion="x").fit(source), "gini, entropy"),
        (lambda: DecisionTree("Fries", max_depth=9).fit(source), "0 to 6"),
        (lambda: DecisionTree("Fries", min_share=0.5).fit(source), "min_share"),
        (lambda: DecisionTree("Fries").predict([{}]), "call fit"),
        (lambda: ChowLiu().sample(1, Coins.stated(0)), "call fit"),
    ):
        with pytest.raises(QueryError, match=words):
            ask()
    with pytest.raises(RecordError, match="a list of records"):
        NaiveBayes("Fries").fit(source).predict({"Pepsi": 4})


def test_plans_that_know_too_little_say_so(meals):
    item = Plan.of(meals.schema, "shist", 1)
    with pytest.raises(PlanError, match="does not ask about keys together"):
        rules(Conditionals(item, Tally(item)))
    single = Plan.of(meals.schema, "kvue", 1)
    with pytest.raises(
        PlanError, match=r"this plan \(kvue\) does not ask about keys together .*; a plan that does: "
    ):
        rules(Conditionals(single, Tally(single)))
    pairs = Plan.of(meals.schema, "pairs", 1)
    with pytest.raises(PlanError, match="no report about 'Fries'"):
        DecisionTree("Fries").fit(Conditionals(pairs, Tally(pairs)))
    assert rules(Conditionals(pairs, Tally(pairs))) == []


@pytest.mark.sampled
def test_keys_that_no_view_holds_are_not_asked_about(meals):
    source = private(meals, 2, 100_000, mechanism="workload", queries="frequency(Fries | Hamburger)")
    for learner in (DecisionTree("Fries"), NaiveBayes("Fries")):
        assert learner.fit(source).score(meals.people) == pytest.approx(0.9)
    with pytest.raises(PlanError, match="no report about 'Pepsi'"):
        ChowLiu().fit(source)


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["ioh", "ioh_optimal", "split", "triples", "coefficients"])
def test_learners_take_any_plan_that_speaks_of_keys_together(meals, mechanism):
    source = private(meals, 4, 200_000, mechanism=mechanism)
    assert len(rules(source)) == 1
    assert DecisionTree("Fries").fit(source).score(meals.people) == pytest.approx(0.9)
    assert NaiveBayes("Fries").fit(source).score(meals.people) == pytest.approx(0.9)
    assert [set(edge[:2]) for edge in ChowLiu().fit(source).edges_] == [{"Hamburger", "Fries"}]
