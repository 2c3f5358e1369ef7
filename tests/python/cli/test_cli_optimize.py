"""`magis optimize`: what it prints, writes, refuses, and with which exit status it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_support import SMALL, Magis, assert_user_error, chain

from magis import _core

JSON_KEYS = {
    "baseline_peak_bytes",
    "peak_bytes",
    "persistent_bytes",
    "lower_bound_bytes",
    "baseline_seconds",
    "seconds",
    "limit",
    "met",
    "states_scored",
    "states_evaluated",
    "wall_seconds",
    "cpu_seconds",
    "stop_reason",
    "edits",
}


def test_the_plan_keeps_the_limit_and_its_promise(
    magis: Magis, small: Path, tmp_path: Path
) -> None:
    plan, code = tmp_path / "plan.json", tmp_path / "step.py"
    done = magis(
        "optimize", small, "--memory-limit", "200000", "-o", plan, "--emit", code, "--json"
    )
    assert (done.status, done.err) == (0, "")
    data = done.json
    assert data.keys() >= JSON_KEYS
    assert data["met"] is True
    assert data["baseline_peak_bytes"] == 65_792 + 163_844
    assert data["peak_bytes"] <= 200_000 == data["limit_bytes"]

    saved = json.loads(plan.read_text())
    simulated = _core.Plan.parse(saved["text"]).simulate("cpu")
    assert simulated.peak_bytes == data["peak_bytes"] == saved["promise"]["peak_bytes"]
    assert simulated.seconds == pytest.approx(data["seconds"])
    compile(code.read_text(), str(code), "exec")
    assert f"Promised peak {data['peak_bytes']:,} bytes" in code.read_text()
    # The input is untouched, and no temporary file stays.
    assert small.read_text() == SMALL
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "plan.json",
        "small.magis",
        "step.py",
    ]


def test_what_was_done_to_whom(magis: Magis, small: Path) -> None:
    data = magis("optimize", small, "--memory-limit", "200000", "--json").json
    recomputed = [edit for edit in data["edits"] if edit["kind"] == "recompute"]
    assert [(edit["operator"], edit["tensor"]) for edit in recomputed] == [("aten.gelu", "a0")]
    assert recomputed[0]["module"] == "net.layers.0.act"
    assert recomputed[0]["bytes"] == 32_768
    assert recomputed[0]["seconds"] == pytest.approx(data["seconds"] - data["baseline_seconds"])


def test_in_words(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = magis("optimize", small, "--memory-limit", "90%", "-o", plan)
    lines = done.out.splitlines()
    assert lines[0] == "Peak memory 224.25 KiB -> 192.25 KiB (85.7 % of before), time +7.0 %"
    assert "  limit        memory at most 90 % of the baseline's peak (201.83 KiB): met" in (
        line.rstrip() for line in lines
    )
    assert f"Plan written to {plan}" in done.out.replace("\n", "")
    done = magis("optimize", small, "--memory-limit", "90%")
    assert "Nothing was written; -o plan.json saves the plan" in done.out


def test_a_ratio_may_be_written_as_in_python(magis: Magis, small: Path) -> None:
    for text in ("0.9", "90%"):
        data = magis("optimize", small, "--memory-limit", text, "--json").json
        assert data["limit_bytes"] == int(0.9 * (65_792 + 163_844))
    for text in ("1.2", "20%"):
        data = magis("optimize", small, "--latency-limit", text, "--json").json
        assert data["limit_seconds"] == pytest.approx(1.2 * data["baseline_seconds"])
        assert data["seconds"] <= data["limit_seconds"]


def test_limits_that_every_plan_meets(magis: Magis, small: Path) -> None:
    for limit in (("--latency-limit", "1e308"), ("--memory-limit", str(2**63 - 1))):
        done = magis("optimize", small, *limit, "--state-budget", "100", "--json")
        assert (done.status, done.err) == (0, "")
        assert done.json["met"] is True


def test_same_seed_and_states_same_plan(magis: Magis, small: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("a.json", "b.json"):
        limit = ("--latency-limit", "1.5", "--state-budget", "200", "--seed", "7")
        assert magis("optimize", small, *limit, "-o", tmp_path / name).status == 0
        texts.append(json.loads((tmp_path / name).read_text())["text"])
    assert texts[0] == texts[1]


def test_a_limit_that_is_not_reached(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    bound = magis("optimize", small, "--latency-limit", "9", "--json").json["lower_bound_bytes"]
    done = magis("optimize", small, "--memory-limit", bound, "-o", plan, "--json")
    assert done.status == 3
    assert done.json["met"] is False
    assert done.json["peak_bytes"] > bound
    assert done.err.startswith("magis: warning: the limit was not met")
    assert json.loads(plan.read_text())["promise"]["met"] is False
    assert "LIMIT NOT MET" in magis("inspect", plan).out


def test_nothing_gained_is_said_first(magis: Magis, small: Path) -> None:
    done = magis("optimize", small, "--memory-limit", "1GiB")
    assert done.status == 0
    assert done.out.startswith("NOTHING WAS GAINED: the peak stays 224.25 KiB")


def test_the_bound_on_time(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    options = (
        "--memory-limit",
        "200000",
        "--no-fission",
        "--rules",
        "remat",
        "--state-budget",
        "99",
    )
    asked = ("optimize", small, *options, "--time-bound")
    data = magis(*asked, "-o", plan, "--json").json
    bound = data["time_bound"]
    assert data["baseline_seconds"] <= bound["seconds"] <= data["seconds"]
    assert bound["gap"] == pytest.approx(data["seconds"] / bound["seconds"] - 1)
    assert (bound["least_bytes"], bound["missing"], bound["in_parts"]) == (None, "", False)
    for shown in (magis(*asked).out, magis("inspect", plan).out):
        assert re.search(r"time bound +\S+ \S+; the plan (is .* above|reaches) it", shown)
    assert magis("optimize", small, *options, "--json").json["time_bound"] is None


def test_the_bound_on_time_where_it_cannot_be_had(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = magis("optimize", small, "--latency-limit", "1.1", "--time-bound")
    assert_user_error(done, "--time-bound is on the time within a --memory-limit: give that")
    done = magis("optimize", small, "--frontier", "--time-bound")
    assert_user_error(done, "--frontier finds the plans for all limits, and --time-bound asks")
    monkeypatch.setattr("magis.bounds.programme.find_spec", lambda name: None)
    done = magis("optimize", small, "--memory-limit", "90%", "--time-bound")
    assert_user_error(done, "HiGHS", "pip install 'magis[bounds]'")


def test_a_limit_below_the_lower_bound(magis: Magis, small: Path, tmp_path: Path) -> None:
    done = magis("optimize", small, "--memory-limit", "100000", "-o", tmp_path / "plan.json")
    assert_user_error(
        done,
        "memory at most 100,000 bytes",
        "certified lower bound of 131,328 bytes (128.25 KiB)",
        "64.25 KiB are there before the step",
        "mylib.squash (%a1) in net.layers.1.act, small.py:12",
    )
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    "ablation", [[], ["--random-fission"], ["--naive-schedule-rules"], ["--max-level", "2"]]
)
def test_the_papers_search_keeps_its_promise(
    magis: Magis, small: Path, tmp_path: Path, ablation: list[str]
) -> None:
    plan = tmp_path / "plan.json"
    limit = ["--latency-limit", "2", "--state-budget", "200"]
    done = magis("optimize", small, *limit, "--strategy", "paper", *ablation, "-o", plan, "--json")
    assert (done.status, done.err) == (0, "")
    data = done.json
    assert data["peak_bytes"] < data["baseline_peak_bytes"]
    assert data["states_evaluated"] <= 200
    simulated = _core.Plan.parse(json.loads(plan.read_text())["text"]).simulate("cpu")
    assert simulated.peak_bytes == data["peak_bytes"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no limit was given"]),
        (["--memory-limit", "8 GB ish"], ["'8 GB ish' is not understood", "8GiB", "40%"]),
        (["--memory-limit", "140%"], ["140%", "out of range"]),
        (["--memory-limit", "1.5"], ["1.5", "out of range"]),
        (["--memory-limit", str(2**63)], ["is larger than any memory"]),
        (["--memory-limit", "9" * 5000], ["is larger than any memory"]),
        (["--latency-limit", "inf"], ["is not a finite number"]),
        (["--latency-limit", "9" * 400 + "%"], ["is not a finite number"]),
        (["--memory-limit", "1GB", "--state-budget", str(2**63)], ["--state-budget 92233"]),
        (["--memory-limit", "0"], ["must be positive"]),
        (["--latency-limit", "0.9"], ["latency limit 0.9"]),
        (["--latency-limit", "soon"], ["'soon' is not understood"]),
        (["--memory-limit", "1GB", "--latency-limit", "1.1"], ["both"]),
        (["--memory-limit", "1GB", "--device", "gtx"], ["--device", '"gtx"', "rtx3090"]),
        (["--memory-limit", "1GB", "--time-budget", "-1"], ["--time-budget -1.0"]),
        (["--memory-limit", "1GB", "--time-budget", "inf"], ["--time-budget inf"]),
        (["--memory-limit", "1GB", "--state-budget", "-5"], ["--state-budget -5"]),
        (["--memory-limit", "1GB", "--seed", "-5"], ["--seed -5"]),
        (["--memory-limit", "1GB", "--sed", "5"], ["--sed", "magis optimize --help"]),
        (["--memory-limit", "1GB", "--strategy", "papers"], ["--strategy", 'mean "paper"']),
        (["--memory-limit", "1GB", "--max-level", "2"], ["--max-level need --strategy paper"]),
        (["--memory-limit", "1GB", "--random-fission"], ["need --strategy paper"]),
        (
            ["--memory-limit", "1GB", "--strategy", "paper", "--batch-parts", "2"],
            ["--batch-parts does not go with --strategy paper"],
        ),
        (["--memory-limit"], ["--memory-limit"]),
    ],
)
def test_arguments_that_are_not_understood(
    magis: Magis, small: Path, arguments: list[str], words: list[str]
) -> None:
    assert_user_error(magis("optimize", small, *arguments), *words)


def test_outputs_that_cannot_be_written_are_refused_before_the_search(
    magis: Magis, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magis.cli.optimize.search", pytest.fail)
    kept = tmp_path / "kept.json"
    kept.write_text("kept")
    kept.chmod(0o444)
    limit = ("--memory-limit", "90%")
    assert_user_error(magis("optimize", small, *limit, "-o", kept), "--output", "read-only")
    assert_user_error(magis("optimize", small, *limit, "--emit", kept), "--emit", "read-only")
    assert_user_error(magis("optimize", small, *limit, "-o", small), "the input")
    absent = tmp_path / "absent" / "plan.json"
    assert_user_error(magis("optimize", small, *limit, "-o", absent), "there is no folder")
    assert kept.read_text() == "kept"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o444
    assert small.read_text() == SMALL


def test_a_plan_is_not_a_graph(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    magis("optimize", small, "--memory-limit", "90%", "-o", plan)
    done = magis("optimize", plan, "--memory-limit", "90%")
    assert_user_error(done, "this is a saved plan, not a graph")


def test_pytorch_is_not_imported(small: Path) -> None:
    code = (
        "import sys\n"
        "from magis.cli import main\n"
        f"assert main(['optimize', {str(small)!r}, '--memory-limit', '90%']) == 0\n"
        f"assert main(['inspect', {str(small)!r}]) == 0\n"
        "assert main(['zoo', '--help']) == 0\n"
        "assert main(['capture', '--help']) == 0\n"
        "assert main(['run', '--help']) == 0\n"
        "heavy = {'torch', 'transformers', 'numpy'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def _seconds_computed(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_interrupting_the_search_keeps_the_best_plan(tmp_path: Path) -> None:
    graph, plan = tmp_path / "chain.magis", tmp_path / "plan.json"
    graph.write_text(chain(3000))
    command = [sys.executable, "-m", "magis.cli", "optimize", graph.name, "--latency-limit", "1.3"]
    command += ["--time-budget", "300", "-o", plan.name, "--json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Start-up takes well under two seconds of computing, however slow the machine is just now.
    while process.poll() is None and _seconds_computed(process.pid) < 4:
        time.sleep(0.1)
    assert process.poll() is None, "the search ended by itself: make the chain longer"
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 10
    assert (process.returncode, err) == (0, "")
    data = json.loads(out)
    assert data["stop_reason"] == "interrupted"
    assert data["peak_bytes"] < data["baseline_peak_bytes"]
    saved = json.loads(plan.read_text())
    assert _core.Plan.parse(saved["text"]).simulate("cpu").peak_bytes == data["peak_bytes"]


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    graph = tmp_path / "chain.magis"
    graph.write_text(chain(60))
    command = [sys.executable, "-m", "magis.cli", "optimize", str(graph)]
    command += ["--latency-limit", "1.3", "--time-budget", "2", "--json"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stderr == ""

    controller, terminal = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as process:
        out = process.stdout.read() if process.stdout else ""
    os.close(terminal)
    shown = os.read(controller, 1 << 20).decode()
    os.close(controller)
    assert json.loads(out)["met"] is True
    assert "states/s" in shown
    assert "s left" in shown
    assert "best" in shown


BATCH_NORM = """magis 1
device cpu
site @1 "net.norm" "net.py:12"
batch %x "x" : f32[6,4,3,3]
param %w "w" : f32[4]
%a = aten.relu(%x) : f32[6,4,3,3]
%b = aten.tanh(%a) : f32[6,4,3,3]
%c, %mean, %rstd = aten._native_batch_norm_legit.no_stats(%b, %w, %w, true, 0.1, 1e-05) : \
f32[6,4,3,3], f32[4], f32[4] @1
%d = aten.exp(%c) : f32[6,4,3,3]
%e = aten.sum(%d) : f32[]

output loss "" %e
"""


def test_a_number_of_parts_by_hand(magis: Magis, tmp_path: Path) -> None:
    file = tmp_path / "norm.magis"
    file.write_text(BATCH_NORM)
    done = magis("optimize", file, "--memory-limit", "1MB", "--batch-parts", "4")
    assert done.status == 0, done.err
    assert "2 parts of 2" not in done.out
    assert "3 parts of 2 of 6" in done.out
    assert "not all of the step runs in parts of the batch: %c (" in done.err
    assert "net.norm at net.py:12) needs the whole axis of length 6 at once" in done.err
    assert_user_error(
        magis("optimize", file, "--memory-limit", "1MB", "--batch-parts", "7"),
        "the batch's axis has length 6: it has no 7 parts",
    )


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """A chain whose activations take long to compute again, and less long to copy."""
    path = tmp_path / "products.magis"
    path.write_text(re.sub(r"aten\.tanh\((%a\d+)\)", r"aten.mm(\1, %x)", chain(8)))
    return path


def test_tensors_are_kept_on_the_host_if_that_is_allowed(
    magis: Magis, products: Path, tmp_path: Path
) -> None:
    def optimized(*options: str | Path) -> dict[str, Any]:
        search = ("--memory-limit", "60%", "--state-budget", "3000", "--no-fission")
        data: dict[str, Any] = magis("optimize", products, *search, *options, "--json").json
        return data

    without = optimized()
    assert without["host_bytes"] == 0  # a CPU is its own host
    swapping = optimized("--swap")
    assert swapping["met"]
    assert swapping["host_bytes"] > 0
    assert swapping["seconds"] < without["seconds"]
    assert any(edit["kind"] == "swap" for edit in swapping["edits"])
    one = 256 * 256 * 4
    bounded = optimized("--host-memory", str(one))
    assert 0 < bounded["host_bytes"] <= one
    assert optimized("--host-memory", "1GiB", "--no-fission")["host_bytes"] > one
    disk = ("--offload-to", "disk", "--offload-directory", tmp_path)
    assert optimized(*disk)["host_bytes"] > one
    assert optimized("--device", "a100")["host_bytes"] > 0
    assert optimized("--device", "a100", "--no-swap")["host_bytes"] == 0


def test_what_is_swapped_is_shown(magis: Magis, products: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    search = ("--memory-limit", "60%", "--state-budget", "3000", "--no-fission", "--swap")
    shown = " ".join(magis("optimize", products, *search, "-o", plan).out.split())
    assert " at most for tensors that leave the device" in shown
    assert " of copying 0 s hidden, " in shown  # a CPU copies itself
    saved = json.loads(plan.read_text())
    assert saved["promise"]["host_bytes"] == _core.Plan.parse(saved["text"]).host_bytes > 0
    inspected = magis("inspect", plan, "--json").json
    assert inspected["swaps"]["host_bytes"] == saved["promise"]["host_bytes"]
    assert "Tensors that leave for the host" in magis("inspect", plan).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-swap", "--host-memory", "1GiB"], "keeps every tensor on the device"),
        (["--swap", "--host-memory", "0"], "needs host memory"),
        (["--host-memory", "some"], "host memory 'some' is not understood"),
        (["--offload-to", "disk"], "needs an offload directory"),
        (["--offload-to", "moon"], "choose one of host, disk"),
    ],
)
def test_words_about_the_host_that_are_refused(
    magis: Magis, small: Path, words: list[str], said: str
) -> None:
    done = magis("optimize", small, "--memory-limit", "90%", *words)
    assert_user_error(done, said)


def test_what_is_free_on_this_machine_is_the_limit(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magis.runtime.auto_limit.free_host_bytes", lambda: 250_000)
    data = magis("optimize", small, "--memory-limit", "auto", "--json").json
    assert data["limit_bytes"] == 225_000  # a tenth stays free
    assert data["limit"] == "memory at most what the device has free (219.73 KiB)"
    assert data["peak_bytes"] <= 225_000
    # What swapped tensors may take comes out of the same memory.
    words = ("--swap", "--host-memory", "20000")
    data = magis("optimize", small, "--memory-limit", "auto", *words, "--json").json
    assert data["limit_bytes"] == 205_000
    monkeypatch.setattr("magis.runtime.auto_limit.free_host_bytes", lambda: 70_000)
    assert_user_error(
        magis("optimize", small, "--memory-limit", "auto"),
        "what the device has free (61.52 KiB) lies below the certified lower bound",
    )


def test_a_device_that_is_not_here_is_there_as_a_whole(magis: Magis, small: Path) -> None:
    words = ("--memory-limit", "auto", "--device")
    data = magis("optimize", small, *words, "a100", "--json").json
    assert data["limit_bytes"] == 76 * 2**30  # 80 less a twentieth
    assert_user_error(
        magis("optimize", small, *words, "reference"),
        "the profile 'reference' is no particular device",
        "rtx3090",
    )


def test_a_plan_in_words(magis: Magis, tmp_path: Path) -> None:
    graph, saved = tmp_path / "chain.magis", tmp_path / "plan.json"
    graph.write_text(chain(20))
    asked = ("--memory-limit", "60%", "--state-budget", "2000", "--no-fission")
    done = magis("optimize", graph, *asked, "--explain", "-o", saved)
    assert done.status == 0
    assert "How the peak came down\n" in done.out
    assert "Recomputed: the peak would be higher, the step faster" in done.out
    assert "aten.tanh" in done.out.partition("Recomputed: ")[2]
    assert "No plan stays below " in done.out
    assert "How the peak" not in magis("optimize", graph, *asked).out
    inspected = magis("inspect", saved, "--explain")
    told = done.out[done.out.index("How the peak") : done.out.index("Plan written")]
    assert inspected.out.rstrip().endswith(told.rstrip())
    assert "Live at the peak, by kind" not in inspected.out
    items = magis("inspect", saved, "--explain", "--json").json["explanation"]
    assert items == magis("optimize", graph, *asked, "--explain", "--json").json["explanation"]
    assert [item["kind"] for item in items[:2]] == ["start", "step"]
    assert items[-1]["kind"] == "bound"
    assert "explanation" not in magis("inspect", saved, "--json").json
    # Under another profile the report says nothing, the plan still does.
    others = magis("inspect", saved, "--device", "a100", "--explain", "--json").json["explanation"]
    assert "bound" not in {item["kind"] for item in others}


def test_a_graph_in_words_is_what_stands_at_its_peak(magis: Magis, small: Path) -> None:
    done = magis("inspect", small, "--explain")
    assert done.out.startswith("Nothing was changed\n")
    assert "  32.00 KiB  batch (1)\n" in done.out
