"""`magis inspect`: where memory goes, in figures that are worked out in cli_support.py."""

from __future__ import annotations

import json
from pathlib import Path

from cli_support import SMALL, Magis, assert_user_error

from magis import _core


def test_a_graph_in_words(magis: Magis, small: Path) -> None:
    done = magis("inspect", small)
    assert (done.status, done.err) == (0, "")
    assert (
        [line.rstrip() for line in done.out.splitlines()]
        == """\
model       small.py:make
replay      bitwise equal to eager
graph       11 operators
time        149 us a step (profile cpu)
peak        224.25 KiB = 64.25 KiB persistent + 160.00 KiB in the step
reached in  aten.ones_like (small.py:20)

Memory over a step
  224.25 KiB |                           ######
             |                   ####################
             |                   ##################################
             |            #########################################
             |       ###########################################################
             |       ###########################################################
             |##################################################################
   64.25 KiB |::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::
             |::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::
             |::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::
             +------------------------------------------------------------------
                                         ^ peak                           149 us

Persistent, by kind
  32.00 KiB  14.3 %  parameters (2)
      256 B   0.1 %  buffers (1)
  32.00 KiB  14.3 %  batch (1)

Live at the peak, by kind
  128.00 KiB  57.1 %  forward activations saved for backward (4)
   32.00 KiB  14.3 %  backward temporaries (1)
         4 B   0.0 %  other outputs (1)

Live at the peak, by module
  128.00 KiB  57.1 %  net.layers.* (4)
   64.00 KiB  28.5 %    act (2)
   64.00 KiB  28.5 %    linear (2)
   32.00 KiB  14.3 %  (outside any module) (2)

Live at the peak, by operator
  64.00 KiB  28.5 %  aten.mm (2)
  32.00 KiB  14.3 %  aten.gelu (1)
  32.00 KiB  14.3 %  aten.ones_like (1)
  32.00 KiB  14.3 %  mylib.squash (1)
        4 B   0.0 %  aten.sum (1)

Biggest tensors live at the peak
  32.00 KiB  2 x f32[128,64], aten.mm
             net.layers.*.linear  small.py:11
  32.00 KiB  %a0 f32[128,64], aten.gelu
             net.layers.0.act  small.py:12
  32.00 KiB  %a1 f32[128,64], mylib.squash
             net.layers.1.act  small.py:12
  32.00 KiB  %g f32[128,64], aten.ones_like
             (outside any module)  small.py:20

What ends the axis of the batch
  %a1 (mylib.squash in net.layers.1.act at small.py:12) is not known to fission:
  it is never split

Operators unknown to magis, never recomputed
  mylib.squash
""".splitlines()
    )


def test_a_graph_in_figures(magis: Magis, small: Path) -> None:
    data = magis("inspect", small, "--json").json
    assert data["persistent_bytes"] == 65_792
    assert data["transient_peak_bytes"] == 163_844
    assert data["peak_bytes"] == 65_792 + 163_844
    assert data["device"] == "cpu"
    assert data["peak_source"] == "small.py:20"
    assert {share["name"]: share["bytes"] for share in data["by_kind"]} == {
        "forward activations saved for backward": 4 * 32_768,
        "backward temporaries": 32_768,
        "other outputs": 4,
    }
    assert data["biggest"][0]["names"] == ["h0", "h1"]
    assert data["opaque"] == ["mylib.squash"]


def test_gradients_are_told_apart_even_behind_views(magis: Magis, small: Path) -> None:
    # The peak moves to the first gradient: dw1 (16,384 B, a gradient), dh1, and of the forward
    # pass a0 and h0; the second gradient is a view of dw0t.
    bigger = SMALL.replace("@3 backward\n%da0", "@3 backward scratch 500000\n%da0")
    small.write_text(bigger)
    data = magis("inspect", small, "--json").json
    assert {share["name"]: share["bytes"] for share in data["by_kind"]} == {
        "forward activations saved for backward": 2 * 32_768,
        "backward temporaries": 32_768,
        "parameter gradients": 16_384,
        "other outputs": 4,
        "workspace of the running operator": 500_000,
    }
    small.write_text(SMALL.replace("@1 backward\n", "@1 backward scratch 500000\n"))
    data = magis("inspect", small, "--json").json
    assert {share["name"]: share["bytes"] for share in data["by_kind"]} == {
        "parameter gradients": 2 * 16_384,
        "backward temporaries": 32_768,
        "other outputs": 4,
        "workspace of the running operator": 500_000,
    }


def test_a_device_that_rounds(magis: Magis, small: Path) -> None:
    data = magis("inspect", small, "--device", "rtx3090", "--json").json
    # Blocks of 512 bytes: the loss takes 512 in place of 4, the buffer 512 in place of 256.
    assert data["transient_peak_bytes"] == 163_844 + 508
    assert data["persistent_bytes"] == 65_792 + 256
    for name in ("persistent", "by_kind"):
        total = data[f"{name}_bytes" if name == "persistent" else "transient_peak_bytes"]
        assert sum(share["bytes"] for share in data[name]) == total


def test_a_plan_as_text_and_as_saved(magis: Magis, small: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    assert magis("optimize", small, "--memory-limit", "90%", "-o", saved).status == 0
    data = magis("inspect", saved, "--json").json
    assert data["subject"] == "plan"
    assert data["peak_bytes"] == data["report"]["promised_peak_bytes"]
    shown = magis("inspect", saved).out
    assert shown.startswith("Peak memory 224.25 KiB -> ")
    assert "What was done" in shown

    text = tmp_path / "plan.magis"
    text.write_text(json.loads(saved.read_text())["text"])
    plain = magis("inspect", text, "--json").json
    assert plain["peak_bytes"] == data["peak_bytes"]
    assert "report" not in plain


def test_a_recomputed_tensor_is_called_so(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.magis"
    plan.write_text(
        SMALL.replace("@3 backward\n%da0", "@3 backward scratch 500000\n%da0")
        + "\nprogram\n"
        + "run %h0\nrun %a0\nrun %h1\nfree %a0\nrun %a1\nrun %loss\nrun %g\nfree %a1\n"
        + "run %dh1 over %g\nfree %h1\nrun %a0 as .1\nrun %dw1 reading %a0.1\nfree %a0.1\n"
        + "run %da0\nfree %dh1\nrun %dh0 over %da0\nfree %h0\nrun %dw0t\nfree %dh0\n"
    )
    data = magis("inspect", plan, "--json").json
    kinds = {share["name"]: share["bytes"] for share in data["by_kind"]}
    assert kinds["recomputed activations"] == 32_768
    assert kinds["forward activations saved for backward"] == 32_768  # h0
    assert data["operators_run"] == data["operators"] + 1


def test_files_that_are_not_graphs(magis: Magis, tmp_path: Path, small: Path) -> None:
    assert_user_error(magis("inspect", tmp_path / "absent"), "absent: no such file")
    assert_user_error(magis("inspect", tmp_path), "is a folder")

    foreign = tmp_path / "foreign"
    foreign.write_text("digraph { a -> b }\n")
    assert_user_error(magis("inspect", foreign), "foreign:1:")

    cut = tmp_path / "cut.magis"
    cut.write_text(SMALL[: SMALL.index("aten.gelu(%h0)") + 8])
    assert_user_error(magis("inspect", cut), "cut.magis:18:")

    other_json = tmp_path / "other.json"
    other_json.write_text('{"a": 1}')
    assert_user_error(magis("inspect", other_json), "other.json: JSON, but not a plan")
    other_json.write_text('{"magis": "0.1.0", "format')
    assert_user_error(magis("inspect", other_json), "other.json:1:", "damaged or cut off")


def test_a_graph_cut_between_its_outputs(magis: Magis, tmp_path: Path) -> None:
    graph, plan = tmp_path / "mlp.magis", tmp_path / "mlp.json"
    assert magis("capture", "mlp", "-o", graph).status == 0
    search = ("--latency-limit", "1.1", "--state-budget", "1")
    assert magis("optimize", graph, *search, "-o", plan).status == 0
    text = graph.read_text()
    count = text.count("\noutput ")
    assert f'\nmeta outputs "{count}"\n' in text

    cut = tmp_path / "cut.magis"
    cut.write_text(text[: text.rindex("output ")])
    said = f"is truncated: it says {count} outputs and holds {count - 1}; capture it again"
    for command in (("inspect", cut), ("optimize", cut, *search)):
        assert_user_error(magis(*command), f"{cut} {said}")

    saved = json.loads(plan.read_text())
    before, program = saved["text"].split("\nprogram\n")
    before = before[: before.rindex("output ")]
    plan.write_text(json.dumps(saved | {"text": f"{before}\nprogram\n{program}"}))
    for name in ("inspect", "run"):
        assert_user_error(magis(name, plan), f"{plan} (text) {said}")


def test_an_accumulating_graph_is_not_taken_for_a_cut_one(magis: Magis, tmp_path: Path) -> None:
    captured = SMALL.replace("meta replay", 'meta outputs "3"\nmeta replay')
    graph = _core.Graph.parse(captured).accumulate_gradients(["net.layers.1.linear.weight"])
    assert len(graph.outputs) == 2
    (tmp_path / "adds.magis").write_text(graph.text())
    assert magis("inspect", tmp_path / "adds.magis").status == 0


def test_a_plan_that_does_not_execute_its_graph(magis: Magis, small: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    assert magis("optimize", small, "--latency-limit", "1.1", "-o", saved).status == 0
    content = json.loads(saved.read_text())
    content["text"] = content["text"].replace("\nrun %a0\n", "\n", 1)
    saved.write_text(json.dumps(content))
    text = tmp_path / "plan.magis"
    text.write_text(content["text"])
    for command in (("inspect", saved), ("inspect", text), ("run", saved)):
        assert_user_error(magis(*command), f"{command[1]}", "of the program", "runs before %a0")


def test_a_device_that_is_not_known(magis: Magis, small: Path) -> None:
    done = magis("inspect", small, "--device", "rtx309")
    assert_user_error(done, '--device: "rtx309"', 'Did you mean "rtx3090"?', "reference-h2")
