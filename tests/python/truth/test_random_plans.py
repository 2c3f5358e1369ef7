"""Random plans: both verifiers accept them, count the same bytes, and find the same bits."""

import re

import pytest
import torch
from random_plans import random_plan
from sabotage import PLAN, Net

from magis import _core
from magis.verify import check_types, evaluate_all, inputs_from, verify_plan

FORMS = {form[0]: form[3] for form in _core.in_place_forms()}
GRAPH = PLAN.read_text().partition("\nprogram\n")[0]


def values() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    model = Net()
    model.last.weight.grad = torch.ones(3, 24)
    return inputs_from(GRAPH, model, (torch.randn(16, 12), torch.randn(16, 3)))


@pytest.mark.parametrize("seed", range(24))
def test_a_random_plan(seed):
    text = random_plan(GRAPH, FORMS, seed, forget=0.02 * (seed % 8))
    facts = verify_plan(text)
    plan = _core.Plan.parse(text)
    plan.verify()
    assert plan.simulate("cpu").transient_peak_bytes == facts.transient_peak_bytes
    assert len(plan.recomputed()) == len(re.findall(r"^run %\w+ as", text, flags=re.M))
    assert plan.operators_run() == len(re.findall("^run", text, flags=re.M))
    check_types(text)
    graph = evaluate_all(GRAPH, values(), dtype=None, seed=2)
    program = evaluate_all(text, values(), dtype=None, seed=2)
    assert all(map(torch.equal, graph.outputs, program.outputs))
    assert torch.equal(graph.inputs["last_weight_grad"], program.inputs["last_weight_grad"])


def test_the_core_prints_a_random_plan_as_it_was_read():
    text = random_plan(GRAPH, FORMS, seed=3, forget=0.1)
    printed = _core.Plan.parse(text).text()
    assert _core.Plan.parse(printed).text() == printed
    assert verify_plan(printed).transient_peak_bytes == verify_plan(text).transient_peak_bytes
