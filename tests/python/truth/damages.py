"""Small damages to tests/data/verify_net_plan.magis and to the code generated from it.

Each is a list of replacements, each of one place, and the names of those who must notice.
"""

from typing import NamedTuple


class Damage(NamedTuple):
    noticed_by: set[str]
    replacements: list[tuple[str, str]]


def damaged(text: str, damage: Damage) -> str:
    for old, new in damage.replacements:
        assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
        text = text.replace(old, new)
    return text


TEXT_DAMAGES = {
    "a missing free": Damage({"verifier"}, [("free %tanh\n", "")]),
    "a free that comes late": Damage(
        {"verifier"}, [("free %tanh\n", ""), ("free %dbn\n", "free %dbn, %tanh\n")]
    ),
    "a free before the last use": Damage(
        {"verifier", "evaluator", "core"},
        [("run %sum\nfree %mul_3\n", "free %mul_3\nrun %sum\n")],
    ),
    "an output freed": Damage(
        {"verifier", "evaluator", "core"}, [("free %dbn\n", "free %dbn, %mm_3\n")]
    ),
    "an operator moved past a read": Damage(
        {"verifier", "evaluator", "core"},
        [
            (
                "run %tanh over %addmm_1\nrun %sub over %mul\n",
                "run %sub over %mul\nrun %tanh over %addmm_1\n",
            )
        ],
    ),
    "an operator that does not run": Damage(
        {"verifier", "evaluator", "core"}, [("run %last_weight_grad_added\n", "")]
    ),
    "a write done twice": Damage(
        {"verifier", "evaluator", "core"},
        [
            (
                "run %last_weight_grad_added\n",
                "run %last_weight_grad_added\nrun %last_weight_grad_added as .1\n",
            )
        ],
    ),
    "a lost buffer update": Damage(
        {"verifier", "evaluator", "step"},
        [('output buffer "norm.running_mean" %bn_running_mean\n', "")],
    ),
    "a buffer left as it was": Damage(
        {"verifier", "evaluator", "step"},
        [('"norm.running_mean" %bn_running_mean\n', '"norm.running_mean" %norm_running_mean\n')],
    ),
    "two gradients in one storage": Damage(
        {"verifier", "evaluator", "step"}, [('"norm.bias" %dbn_bias', '"norm.bias" %dbn_weight')]
    ),
    "gradients exchanged": Damage(
        {"evaluator", "step"},
        [
            ('"norm.bias" %dbn_bias', '"norm.bias" %dbn_other'),
            ('"norm.weight" %dbn_weight', '"norm.weight" %dbn_bias'),
            ("%dbn_other", "%dbn_weight"),
        ],
    ),
    "in place over what is read later": Damage(
        {"verifier", "evaluator", "core"}, [("run %mul_4\n", "run %mul_4 over %div_1\n")]
    ),
    "in place over another layout": Damage(
        {"verifier", "core"},
        [("run %sum_2\nfree %dbn\n", "run %sum_2 over %dbn\n")],
    ),
    "a random operator run again": Damage(
        {"verifier", "evaluator", "core"},
        [
            ("run %div\n", "run %div\nfree %mask1\n"),
            (
                "run %div as .1 over %mask1\n",
                "run %mask1 as .1\nrun %div as .1 reading %mask1.1 over %mask1.1\n",
            ),
        ],
    ),
    "random operators in another order": Damage(
        {"verifier", "evaluator", "core"},
        [("run %mask2\n", ""), ("run %mask1\n", "run %mask2\nrun %mask1\n")],
    ),
    "operands exchanged": Damage(
        {"evaluator", "step"},
        [("aten.tanh_backward(%neg, %tanh)", "aten.tanh_backward(%tanh, %neg)")],
    ),
    "another copy read": Damage(
        {"verifier", "evaluator", "core"},
        [("reading %addmm.3, %bn_mean.1, %bn_rstd.2\n", "reading %addmm.3, %bn_mean.1\n")],
    ),
    "a wrong byte size": Damage(
        {"types", "allocator"},
        [
            (
                "%mm = aten.mm(%mul_3, %last_weight) : f32[16,24]",
                "%mm = aten.mm(%mul_3, %last_weight) : f32[16,24]/2048",
            )
        ],
    ),
    "a wrong layout": Damage(
        {"types", "core"},
        [
            (
                "aten.permute(%dbn, [1,0]) : f32[24,16]{1,24}",
                "aten.permute(%dbn, [1,0]) : f32[24,16]",
            )
        ],
    ),
    "a wrong dtype": Damage(
        {"types", "evaluator"},
        [
            (
                "%mm_2 = aten.mm(%tanh_backward, %second_weight) : f32",
                "%mm_2 = aten.mm(%tanh_backward, %second_weight) : bf16",
            )
        ],
    ),
    "a view counted as memory of its own": Damage(
        {"types"},
        [
            ("%view_1 = aten.view(%sum_1, [24])", "%view_1 = aten._unsafe_view(%sum_1, [24])"),
            ("run %sum_1\n", "run %sum_1\nrun %view_1\nfree %sum_1\n"),
        ],
    ),
}

SOURCE_DAMAGES = {
    "a missing del": Damage({"allocator"}, [("    del neg, tanh\n", "    del neg\n")]),
    "a tensor held under another name": Damage(
        {"allocator"}, [("    del neg, tanh\n", "    held = tanh\n    del neg, tanh\n")]
    ),
    "a del before the last use": Damage(
        {"step"},
        [
            (
                "    sum_ = aten_sum_dim_IntList(mul_3, [0], True)\n    del mul_3\n",
                "    del mul_3\n    sum_ = aten_sum_dim_IntList(mul_3, [0], True)\n",
            ),
        ],
    ),
    "a kernel in place that must not be": Damage(
        {"step"}, [("mul_4 = aten_mul_Tensor(mm, div_1)", "mul_4 = aten_mul__Tensor(mm, div_1)")]
    ),
    "a kernel not in place that should be": Damage(
        {"allocator"},
        [
            (
                "    div_1 = aten_div__Scalar(mask2, 0.75)\n    del mask2\n",
                "    div_1 = torch.ops.aten.div.Scalar(mask2, 0.75)\n",
            )
        ],
    ),
    "a mask drawn at another place": Damage(
        {"step"},
        [
            (
                "    mask2 = torch.empty_strided",
                "    torch.rand(1)\n    mask2 = torch.empty_strided",
            ),
        ],
    ),
    "an update of a gradient left out": Damage(
        {"step"}, [("    aten_add__Tensor(last_weight_grad, mm_1)\n", "")]
    ),
    "results returned in another order": Damage(
        {"step"},
        [
            (
                "        bn_running_mean,  # buffer norm",
                "        bn_running_var,  #\n        bn_running_mean,  # buffer norm",
            ),
            ("        bn_running_var,  # buffer norm.running_var\n", ""),
        ],
    ),
}

# To MLP_SPLIT_PLAN of tests/python/verify/fission_texts.py: a loop over a batch of 4 in parts of 3.
LOOP_DAMAGES = {
    "a write left out": Damage(
        {"verifier", "evaluator", "core"},
        [("%n2 = magis.add_part(%loss, %s) : none\n", ""), ("run %n2\n", "")],
    ),
    "a write that does not run": Damage({"verifier", "evaluator", "core"}, [("run %n3\n", "")]),
    "a sum where the first part is kept": Damage(
        {"evaluator"}, [("magis.add_part(%loss, %s)", "magis.keep_part(%loss, %s)")]
    ),
    "the largest part instead of the sum": Damage(
        {"evaluator"}, [("magis.add_part(%loss, %s)", "magis.max_part(%loss, %s)")]
    ),
    "another tensor's part": Damage(
        {"evaluator"},
        [("magis.write_part(%out, 0, 1*r1, %o)", "magis.write_part(%out, 0, 1*r1, %yp)")],
    ),
    "a wrong dimension": Damage(
        {"verifier", "evaluator", "core"}, [("magis.part(%y, 0, 1*r1)", "magis.part(%y, 1, 1*r1)")]
    ),
    "a wrong coefficient": Damage(
        {"verifier", "evaluator", "core"}, [("magis.part(%x, 0, 1*r1)", "magis.part(%x, 0, 2*r1)")]
    ),
    "a part of another length than the others": Damage(
        {"verifier", "evaluator", "core"},
        [('magis.begin("r1", 3, 4, [])', 'magis.begin("r1", 2, 4, [])')],
    ),
    "an axis too long": Damage(
        {"verifier", "evaluator"},
        [('magis.begin("r1", 3, 4, [])', 'magis.begin("r1", 3, 5, [])')],
    ),
    "a result freed in the body": Damage(
        {"verifier", "evaluator", "core"}, [("run %n2\nfree %s\n", "run %n2\nfree %s, %loss\n")]
    ),
    "a part freed before it is written": Damage(
        {"verifier", "evaluator", "core"},
        [("run %n4\nfree %dh\n", "free %dh\nrun %n4\n")],
    ),
    "a part held over the iteration": Damage(
        {"verifier", "evaluator", "core"}, [("free %dh\n", "")]
    ),
    "an end that does not run": Damage({"verifier", "evaluator", "core"}, [("run %e\n", "")]),
    "an operator of the body after the end": Damage(
        {"verifier", "evaluator", "core"},
        [("run %n4\nfree %dh\nrun %e\n", "run %e\nrun %n4\nfree %dh\n")],
    ),
    "a result that the end leaves out": Damage(
        {"verifier", "evaluator", "core"},
        [("[%out, %loss, %dw2, %dw1], [])", "[%out, %loss, %dw2], [])")],
    ),
}

LOOP_SOURCE_DAMAGES = {
    "a slice that starts elsewhere": Damage(
        {"step"},
        [("h = aten_mm(x.narrow(0, r1, r1_length)", "h = aten_mm(x.narrow(0, 0, r1_length)")],
    ),
    "the part of a neighbour": Damage(
        {"step"},
        [("y.narrow(0, r1, r1_length)", "y.narrow(0, max(r1 - 1, 0), r1_length)")],
    ),
    "a slice of another length": Damage(
        {"step"}, [("out.narrow(0, r1, r1_length)", "out.narrow(0, r1, 1)")]
    ),
    "a last part that is not shorter": Damage(
        {"step"}, [("r1_length = min(3, 4 - r1)", "r1_length = 3")]
    ),
    "a part left out": Damage({"step"}, [("in range(0, 4, 3)", "in range(0, 3, 3)")]),
    "a missing write": Damage({"step"}, [("        out.narrow(0, r1, r1_length).copy_(o)\n", "")]),
    "a first part added to what was there": Damage(
        {"step"},
        [("beta=0 if r1 == 0 else 1)\n\n        # backward", "beta=1)\n\n        # backward")],
    ),
    "a sum that starts anew with every part": Damage(
        {"step"},
        [("beta=0 if r1 == 0 else 1)\n\n        # backward", "beta=0)\n\n        # backward")],
    ),
    "a wrong coefficient of what was there": Damage(
        {"step"},
        [
            (
                "beta=0 if r1 == 0 else 1)\n        del dh",
                "beta=0 if r1 == 0 else 2)\n        del dh",
            )
        ],
    ),
    "a copy in every part": Damage({"step"}, [("if r1 == 0:\n", "if True:\n")]),
    "a part held to the end of its iteration": Damage({"allocator"}, [("        del sq\n", "")]),
    "a result made whole twice": Damage(
        {"allocator"},
        [
            (
                "    for r1 in range(0, 4, 3):\n",
                "    spare = out.clone()\n    for r1 in range(0, 4, 3):\n",
            )
        ],
    ),
}
