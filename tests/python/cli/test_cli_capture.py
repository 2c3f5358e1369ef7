"""`magis capture`: zoo models and functions in files; what it refuses, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import TRAIN, Magis, assert_user_error

from magis import _core


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: holds TRAIN as train.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_a_function_in_a_file(magis: Magis, folder: Path) -> None:
    done = magis("capture", "train.py:make", "--json")
    assert done.status == 0
    assert done.err == "loading\n"  # what the file prints
    data = done.json
    assert data["file"] == "train.magis"
    assert data["replayed"] == "bitwise equal to eager"
    assert data["opaque"] == []
    graph = _core.Graph.parse((folder / "train.magis").read_text())
    graph.verify()
    assert graph.meta["model"] == "train.py:make"
    assert graph.meta["torch"].startswith("2.")
    assert data["operators"] == graph.operator_count
    baseline = _core.Plan.program_order(graph).simulate("cpu")
    assert (data["peak_bytes"], data["persistent_bytes"]) == (
        baseline.peak_bytes,
        baseline.persistent_bytes,
    )
    sources = {tensor.source for tensor in graph.tensors if tensor.module == "0"}
    assert sources == {"train.py:7"}


def test_a_zoo_model_with_options(magis: Magis, folder: Path) -> None:
    done = magis("capture", "mlp", "--batch", "3", "--dropout", "0", "-o", "a.magis")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("model       mlp --batch 3 --dropout 0.0")
    graph = _core.Graph.parse((folder / "a.magis").read_text())
    assert {entry.shape[0] for entry in graph.inputs if entry.kind == "batch"} == {3}
    assert graph.meta["zoo_batch"] == "3"
    assert graph.meta["replay"] == "bitwise equal to eager"


def test_full_size_takes_no_weights(magis: Magis, folder: Path) -> None:
    data = magis("capture", "mlp", "--size", "full", "--json").json
    assert data["replayed"] == "not replayed: captured without weights"
    assert data["persistent_bytes"] > 270_000_000 * 4


def test_the_optimizer_in_the_step(magis: Magis, folder: Path) -> None:
    assert magis("capture", "mlp", "--optimizer", "sgd").status == 0
    graph = _core.Graph.parse((folder / "mlp.magis").read_text())
    assert "param" in {output.kind for output in graph.outputs}
    assert graph.meta["optimizer"] == "SGD"
    assert graph.meta["replay"] == "bitwise equal to eager"


def test_autocast_is_compared_with_eager_under_autocast(magis: Magis, folder: Path) -> None:
    done = magis("capture", "train.py:make", "--autocast", "bfloat16", "--json")
    assert done.json["replayed"] == "bitwise equal to eager"
    types = {
        tensor.type[:4]
        for tensor in _core.Graph.parse((folder / "train.magis").read_text()).tensors
    }
    assert "bf16" in types


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["brt"], ['"brt"', '"bert"']),
        (["mlp", "--size", "huge"], ['"huge"', "tiny, small or full"]),
        (["mlp", "--seq", "5"], ["mlp has no", "seq"]),
        (["mlp", "--batch", "0"], ["batch must be at least 1"]),
        (["mlp", "--batch", "many"], ["--batch"]),
        (["mlp", "--dtype", "int8"], ["int8", "float32"]),
        (["mlp", "--variant", "toy"], ['"toy"', "real or paper"]),
        (["mlp", "--device", "tpu"], ["--device", '"tpu"', "cpu, cuda"]),
        (["mlp", "--optimizer", "lion"], ["--optimizer", '"lion"', "sgd, adam, adamw"]),
        (["mlp", "--autocast", "int8"], ["--autocast", '"int8"', "bfloat16"]),
        (["absent.py:make"], ["absent.py: no such file"]),
        (["train.py"], ["does not say which function", "train.py:FUNCTION"]),
        (["train.py:"], ["does not say which function", "train.py:FUNCTION"]),
        (["train.py:mak"], ["train.py has no function mak", 'did you mean "make"']),
        (["train.py:fails"], ["train.py:14: RuntimeError: no data set"]),
        (["train.py:pair"], ["train.py:pair returns 2 values", "(model, loss_fn, batch)"]),
        (["train.py:no_module"], ["returns dict as model", "torch.nn.Module"]),
        (["train.py:make", "--size", "full"], ["--size: for models of the zoo only"]),
        (["train.py:looks_at_data"], ["train.py:27", ".item()"]),
        (["train.py:boolean"], ["train.py:34", "boolean indexing"]),
        (["train.py:no_scalar"], ["must be a scalar"]),
        (["syntax.py:make"], ["syntax.py:1"]),
    ],
)
def test_what_cannot_be_captured(
    magis: Magis, folder: Path, arguments: list[str], words: list[str]
) -> None:
    (folder / "syntax.py").write_text("def make(:\n")
    (folder / "kept.magis").write_text("kept")
    before = sorted(path.name for path in folder.iterdir())
    done = magis("capture", *arguments, "-o", "kept.magis")
    done = type(done)(done.status, done.out, done.err.removeprefix("loading\n"))
    assert_user_error(done, *words)
    assert (folder / "kept.magis").read_text() == "kept"
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before


def test_the_traceback_of_a_users_own_code_is_shown_on_demand(
    magis: Magis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGIS_DEBUG", "1")
    done = magis("capture", "train.py:fails")
    assert done.status == 2
    assert 'raise RuntimeError("no data set")' in done.err
    assert done.err.endswith("magis: error: train.py:14: RuntimeError: no data set\n")


def test_a_step_that_eager_does_not_reproduce(magis: Magis, folder: Path) -> None:
    done = magis("capture", "train.py:changes_by_itself")
    assert done.status == 2
    assert "does not reproduce eager PyTorch bit for bit: the loss differs" in done.err
    assert "--tolerance" in done.err
    assert not (folder / "train.magis").exists()
    assert magis("capture", "train.py:changes_by_itself", "--tolerance", "10").status == 0


def test_an_output_that_cannot_be_written_is_refused_first(
    magis: Magis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magis.cli.capture.zoo_workload", pytest.fail)
    (folder / "kept.magis").write_text("kept")
    (folder / "kept.magis").chmod(0o444)
    assert_user_error(magis("capture", "mlp", "-o", "kept.magis"), "--output", "read-only")


def test_a_batch_beyond_what_tensors_count(magis: Magis, tmp_path: Path) -> None:
    target = tmp_path / "mlp.magis"
    done = magis("capture", "mlp", "--batch", str(2**63), "-o", target)
    assert_user_error(done, f"batch {2**63}: larger than any tensor")
    done = magis("capture", "mlp", "--batch", str(2**62), "-o", target)
    assert_user_error(done, "has not enough memory for that")
    assert not target.exists()
