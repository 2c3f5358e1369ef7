"""Programs whose loops are damaged, and what is said of each."""

import re

import pytest
from fission_texts import MLP_SPLIT_PLAN, TWO_AXES_PLAN
from verify_support import changed

from magis.errors import PlanError
from magis.verify import verify_plan

# %n is of the layout of what it reads from outside.
SHARED_PLAN = """magis 1
batch %x "x" : f32[3,4]
%m = aten.neg(%x) : f32[3,4]
%s = magis.begin("r1", 1, 2, [%m]) : f32[3,4]
%n = aten.relu(%m) : f32[3,4]
%e = aten.add.Tensor(%n, %m) : f32[3,4]
%k = magis.keep_part(%s, %e) : none
%end = magis.end("r1", [%s], [%m]) : none
output aux "" %s
program
run %m
run %s
run %n
run %e over %n
run %k
free %e
run %end
free %m
"""

DAMAGED_PLANS = {
    "another copy at the end": (
        TWO_AXES_PLAN,
        "run %n4\nfree %zp\nrun %e1\nfree %x2\n",
        "run %n4\nfree %zp\nrun %e1 reading %x2.1\nfree %x2\n",
        "line 42: run %e1 reading %x2.1: reads %x2.1, but the loop r1 began with %x2",
    ),
    "a loop that runs again": (
        TWO_AXES_PLAN,
        "run %e1\n",
        "run %e1\nrun %y as .1\n",
        "line 43: run %y as .1: runs again, but it begins or ends a loop",
    ),
    "a body that runs twice in an iteration": (
        TWO_AXES_PLAN,
        "run %n2\n",
        "run %n2\nrun %n2 as .1\n",
        "line 34: run %n2 as .1: runs again, but it writes to an operand",
    ),
    "a result read before the end": (
        TWO_AXES_PLAN,
        "run %e2\nfree %x3\nrun %n3\nfree %yr\nrun %zp over %rows\n",
        "run %zp over %rows\nrun %e2\nfree %x3\nrun %n3\nfree %yr\n",
        "line 35: run %zp over %rows: %zp belongs outside the loop r2, but runs inside",
    ),
    "a body before its begin": (
        MLP_SPLIT_PLAN,
        "run %out\nrun %h\n",
        "run %h\nrun %out\n",
        "line 33: run %h: %h belongs to the loop r1, which has not begun",
    ),
    "a body after its end": (
        MLP_SPLIT_PLAN,
        "run %n4\nfree %dh\nrun %e\n",
        "free %dh\nrun %e\nrun %n4\n",
        "line 50: free %dh: %dh is still read by run %n4 (line 52)",
    ),
    "a last statement after the end": (
        TWO_AXES_PLAN,
        "run %n2\nfree %rp\nrun %e2\n",
        "free %rp\nrun %e2\nrun %n2\n",
        "line 33: free %rp: %rp is still read by run %n2 (line 35)",
    ),
    "a statement that belongs outside": (
        TWO_AXES_PLAN,
        "run %e2\nfree %x3\nrun %n3\n",
        "run %n3\nrun %e2\nfree %x3\n",
        "line 35: run %n3: %n3 belongs outside the loop r2, but runs inside",
    ),
    "a loop that is not ended": (
        TWO_AXES_PLAN,
        "run %e1\nfree %x2\n",
        "",
        "line 25: run %y: the program does not end the loop r1",
    ),
    "a free of what is made outside": (
        TWO_AXES_PLAN,
        "run %x3\n",
        "run %x3\nfree %x2\n",
        "line 27: free %x2: %x2 was made outside the loop r1 and is gone in its next iteration",
    ),
    "in place over what is made outside": (
        SHARED_PLAN,
        "run %e over %n\n",
        "run %e over %m\n",
        "line 14: run %e over %m: %m is still read by run %end (line 17)",
    ),
    "made anew inside": (
        TWO_AXES_PLAN,
        "run %x3\n",
        "run %x2 as .1\nrun %x3 reading %x2.1\nfree %x2.1\n",
        "line 26: run %x2 as .1: %x2 belongs outside the loop r1, but runs again inside",
    ),
    "another copy than the begin's": (
        TWO_AXES_PLAN,
        "run %x2\nrun %y\n",
        "run %x2\nrun %x2 as .1\nrun %y reading %x2.1\n",
        "line 27: run %x3: reads %x2, but the loop r1 began with %x2.1",
    ),
    "left over in the body": (
        TWO_AXES_PLAN,
        "run %e2\nfree %x3\nrun %n3\nfree %yr\n",
        "run %e2\nfree %x3\nrun %n3\n",
        "line 41: run %e1: %yr was made in the loop r1 and is not freed there",
    ),
}


@pytest.mark.parametrize("what", DAMAGED_PLANS)
def test_damaged_programs(what):
    text, old, new, message = DAMAGED_PLANS[what]
    verify_plan(text)
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        verify_plan(changed(text, old, new))
