"""Rewrite rules compute what they replace: each by itself, and many one after another."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from fission_cases import CASES_ONCE, Case, subject
from hooked import under_hook

from magis import _core
from magis.verify import FissionCheck
from magis.verify.layouts import check_types

RULES = [rule for rule, *_ in _core.rewrite_rules()]
WRITTEN = [r for r in RULES if any(_core.rule_example(r, seed=s) for s in range(20))]
# In float64: of the largest element, and of the largest output (a key's bias has the gradient 0).
TOLERANCE, NOISE = 1e-9, 1e-13


def examples(rule: str, count: int) -> None:
    """Both sides of `rule` on random tensors of `count` random shapes."""
    proved = 0
    for seed in itertools.count():
        assert seed < 20 * count, f"{rule}: hardly any shapes go"
        if (example := _core.rule_example(rule, seed=seed)) is None:
            continue
        before, after = (graph.text() for graph in example)
        check_types(after)
        FissionCheck(before, seed=seed, tolerance=TOLERANCE).check(after)
        proved += 1
        if proved == count:
            return


@pytest.mark.parametrize("rule", WRITTEN)
def test_a_rule_on_random_shapes(rule: str) -> None:
    examples(rule, 10)


@pytest.mark.long
@pytest.mark.parametrize("rule", WRITTEN)
def test_a_rule_on_200_random_shapes(rule: str) -> None:
    examples(rule, 200)


def written_cases() -> Iterator[tuple[str, str, str]]:
    """(name, before, after) of tests/data/rules; tests/core/support/rule_cases.h says what they
    look like, and the tests in C++ that they are what the rules make."""
    for path in sorted((Path(__file__).parents[2] / "data" / "rules").iterdir()):
        for case in path.read_text().split("\n\n"):
            heading, rest = case.split("\n", 1)
            left, right = rest.split("gives\n")
            before = [line.strip() for line in left.splitlines()]
            after = [line.strip() for line in right.split("not because")[0].splitlines()]
            inputs = [line for line in before if not line.startswith(("%", "output "))]
            renamed = {line.split()[2]: line for line in after if line.startswith("output ")}
            outputs = [line for line in before if line.startswith("output ")]
            outputs = [renamed.get(line.split()[2], line) for line in outputs]
            after = [line for line in after if line.startswith("%")]
            yield heading, graph_text(before), graph_text(inputs + after + outputs)


def graph_text(lines: list[str]) -> str:
    return "\n".join(["magis 1", "device cpu", *lines, ""])


CASES = list(written_cases())


@pytest.mark.parametrize(("before", "after"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_written_case(before: str, after: str) -> None:
    check_types(before)
    check_types(after)
    FissionCheck(before, seed=1, tolerance=TOLERANCE).check(after)


def sequences(case: Case, count: int) -> None:
    """A zoo model after `count` sequences of 20 random rewrites."""
    source = subject(case)
    graph = _core.Graph.parse(source.text)
    truth = FissionCheck(source.text, source.truth.inputs, tolerance=TOLERANCE, noise=NOISE)
    for seed in range(count):
        rewritten, taken = _core.rewrite_at_random(graph, count=20, seed=seed)
        assert taken or not _core.count_matches(graph)
        rewritten.verify()
        check_types(rewritten.text())
        truth.check(rewritten.text())


@pytest.mark.parametrize("case", CASES_ONCE, ids=str)
def test_some_sequences_of_rewrites(case: Case) -> None:
    sequences(case, 2)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES_ONCE, ids=str)
def test_sequences_of_rewrites(case: Case) -> None:
    sequences(case, 20)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "resnet50"])
def test_a_rewritten_graph_keeps_its_promise(name: str) -> None:
    code = f"""
        import json
        from fission_promise import rewritten_accounts
        print(json.dumps(rewritten_accounts({name!r})))
    """
    for found in json.loads(under_hook(code)):
        assert found["promised"] == found["measured"], found


@pytest.mark.parametrize("device", ["reference", "reference-h2", "cpu"])
@pytest.mark.parametrize("case", CASES_ONCE, ids=str)
def test_no_time_is_lost_where_memory_has_no_limit(case: Case, device: str) -> None:
    graph = _core.Graph.parse(subject(case).text)
    before = _core.Plan.program_order(graph).simulate(device)
    found = _core.optimize(
        graph, device=device, memory_limit=1 << 50, state_budget=300, time_budget=1e9
    )
    assert found.seconds <= before.seconds


def test_rules_are_told_apart_in_a_graph_that_they_made() -> None:
    case = random.Random(1).choice([c for c in CASES_ONCE if c.name == "bert"])
    graph = _core.Graph.parse(subject(case).text)
    result = _core.optimize(
        graph, device="reference", latency_limit=1e9, state_budget=500, time_budget=1e9
    )
    assert result.plan.graph.rewrites
    assert result.plan.graph.rounds_otherwise
    exact = _core.optimize(
        graph, device="reference", latency_limit=1e9, state_budget=500, time_budget=1e9, exact=True
    )
    assert not exact.plan.graph.rounds_otherwise
    names = [rule for rule, _ in result.plan.graph.rewrites]
    without = _core.optimize(
        graph,
        device="reference",
        latency_limit=1e9,
        state_budget=500,
        time_budget=1e9,
        without_rules=names,
    )
    assert not {rule for rule, _ in without.plan.graph.rewrites} & set(names)
