"""With exact=True, steps leave the very bits that eager leaves, and need the bytes they promise."""

import functools
import json
from typing import Any

import pytest
from hooked import under_hook

CASES = {
    "mlp": "'mlp', share=0.5, batch=64",
    "vit": "'vit', share=0.5, batch=6",
    "bert, dropout": "'bert', share=0.5, batch=6",
    "gpt2": "'gpt2', share=0.5, batch=6, dropout=0.0",
}
LONG = {
    "btlm": "'btlm', share=0.5, batch=5",
    "gpt-neo": "'gpt-neo', share=0.5, batch=5",
    "llama": "'llama', share=0.5, batch=5",
    "bert, small": "'bert', share=0.3, batch=8, size='small'",
    "resnet50": "'resnet50', share=0.6, batch=4",
    "unet": "'unet', share=0.6, batch=3",
}


@functools.cache
def account(arguments: str) -> dict[str, Any]:
    code = f"""
        import json
        from fission_exact import account
        print(json.dumps(account({arguments})))
    """
    read: dict[str, Any] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize(
    "case",
    [pytest.param(CASES[name], id=name) for name in CASES]
    + [pytest.param(LONG[name], id=name, marks=pytest.mark.long) for name in LONG],
)
def test_exact_steps_leave_the_bits_of_eager_in_the_bytes_they_promise(case: str) -> None:
    found = account(case)
    assert found["differs"] == found["more"] == []
    assert found["beyond"] == 0
    assert found["saved"] > 0
