"""Every damage to a plan with a loop, or to its code, is noticed, and by whom it should be."""

import functools
import json
from pathlib import Path

import pytest
from damages import LOOP_DAMAGES, LOOP_SOURCE_DAMAGES
from hooked import under_hook

DAMAGES = LOOP_DAMAGES | LOOP_SOURCE_DAMAGES
TEXTS = Path(__file__).parents[1] / "verify"


@functools.cache
def noticed() -> dict[str, list[str]]:
    code = f"""
        import json, sys
        sys.path.append({str(TEXTS)!r})
        from loop_sabotage import who_notices_what
        print(json.dumps(who_notices_what()))
    """
    names: dict[str, list[str]] = json.loads(under_hook(code))
    return names


def test_nobody_objects_to_the_sound_plan():
    assert noticed()[""] == []


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_noticed(what):
    assert set(noticed()[what]) >= DAMAGES[what].noticed_by
