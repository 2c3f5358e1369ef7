"""Every damage to a plan or to its code is noticed, and by whom it should be."""

import functools
import json

import pytest
from damages import SOURCE_DAMAGES, TEXT_DAMAGES
from hooked import under_hook

DAMAGES = TEXT_DAMAGES | SOURCE_DAMAGES


@functools.cache
def noticed() -> dict[str, list[str]]:
    code = """
        import json
        from sabotage import who_notices_what
        print(json.dumps(who_notices_what()))
    """
    names: dict[str, list[str]] = json.loads(under_hook(code))
    return names


def test_nobody_objects_to_the_sound_plan():
    assert noticed()[""] == []


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_noticed(what):
    assert set(noticed()[what]) >= DAMAGES[what].noticed_by
