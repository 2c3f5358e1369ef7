"""`magis optimize --frontier`: the folder that it writes, what it refuses, and how one chooses from
it.
"""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_support import Magis, assert_user_error, chain

from magis import _core
from magis.cli import main
from magis.runtime.progress import counting
from magis.verify import verify_plan

SEARCH = ("--frontier", "--state-budget", "4000", "--threads", "1")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier; not to be changed."""
    place = tmp_path_factory.mktemp("written")
    graph = place / "chain.magis"
    graph.write_text(chain(12))
    folder = place / "frontier"
    assert main(["optimize", str(graph), *SEARCH, "-o", str(folder)]) == 0
    assert sorted(path.name for path in place.iterdir()) == ["chain.magis", "frontier"]
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "frontier"))


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "chain.magis"
    path.write_text(chain(12))
    return path


def index_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "frontier.json").read_text())
    return found


def change_index(folder: Path, **changes: Any) -> None:
    (folder / "frontier.json").write_text(json.dumps({**index_of(folder), **changes}))


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("optimize", "find_frontier"):
        monkeypatch.setattr(_core, name, lambda *_, name=name, **__: pytest.fail(name))


class TestFolder:
    def test_every_plan_is_smaller_and_slower_and_keeps_its_promise(self, written: Path) -> None:
        index = index_of(written)
        assert (index["magis"], index["format"], index["device"]) == ("0.1.0", 1, "cpu")
        names = [plan["file"] for plan in index["plans"]]
        assert len(names) > 20
        assert sorted(path.name for path in written.iterdir()) == sorted(
            ["frontier.json", "graph.magis", *names]
        )
        source = _core.Graph.parse((written / "graph.magis").read_text())
        before = _core.Plan.program_order(source).simulate("cpu")
        assert index["baseline_peak_bytes"] == before.peak_bytes
        assert index["baseline_seconds"] == before.seconds
        assert index["lower_bound_bytes"] == _core.lower_bound(source, device="cpu").bytes
        peaks, times = [], []
        for plan in index["plans"]:
            saved = json.loads((written / plan["file"]).read_text())
            counted = verify_plan(saved["text"], device="cpu")
            assert counted.peak_bytes == plan["peak_bytes"] == saved["promise"]["peak_bytes"]
            assert plan["host_bytes"] == counted.host_peak_bytes == 0
            assert plan["recomputed"] == saved["decisions"]["recomputed"]
            loops = _core.Plan.parse(saved["text"]).graph.loop_count
            assert plan["regions"] == len(plan["parts"]) == loops
            peaks.append(plan["peak_bytes"])
            times.append(plan["seconds"])
        assert peaks == sorted(set(peaks), reverse=True)
        assert times == sorted(set(times))
        assert any(plan["parts"] for plan in index["plans"])

    def test_its_plans_are_plan_files(self, magis: Magis, written: Path) -> None:
        last = index_of(written)["plans"][-1]
        found = magis("inspect", written / last["file"], "--json").json
        assert found["peak_bytes"] == last["peak_bytes"]
        done = magis("inspect", written / "frontier.json")
        assert_user_error(done, "the index of a frontier, not a plan; its plans lie beside it")

    def test_what_is_printed(self, magis: Magis, graph: Path, written: Path) -> None:
        done = magis("optimize", graph, *SEARCH)
        assert (done.status, done.err) == (0, "")
        index = index_of(written)
        count = len(index["plans"])
        lines = done.out.splitlines()
        before = "3.50 MiB, 1.81 ms (profile cpu)"
        assert lines[0] == f"{count} plans, the fastest first; before: {before}"
        rows = [line.split() for line in lines if line.startswith("  ") and "%" in line]
        assert len(rows) == 21
        assert rows[0] == ["1", "3.50", "MiB", "100.0", "%", "unchanged", "-", "0", "0"]
        assert rows[-2][0] == str(count)
        assert rows[-1] == ["512.00", "KiB", "14.3", "%", "lower", "bound"]
        assert f"20 of {count} plans shown" in lines
        assert "Nothing was written; -o FOLDER saves the plans." in lines

    def test_as_json(self, magis: Magis, graph: Path, written: Path, tmp_path: Path) -> None:
        data = magis("optimize", graph, *SEARCH, "-o", tmp_path / "new", "--json").json
        assert data.pop("folder") == str(tmp_path / "new")
        index = index_of(written)
        steady = ["baseline_peak_bytes", "baseline_seconds", "lower_bound_bytes", "device"]
        assert {key: data[key] for key in steady} == {key: index[key] for key in steady}
        for plan in index["plans"]:
            del plan["file"]
        assert data["plans"] == index["plans"]

    def test_a_frontier_is_replaced_with_its_permissions(
        self, magis: Magis, graph: Path, folder: Path
    ) -> None:
        change_index(folder, states_scored=77)
        folder.chmod(0o750)
        assert magis("optimize", graph, *SEARCH, "-o", folder).status == 0
        assert index_of(folder)["states_scored"] != 77
        assert folder.stat().st_mode & 0o777 == 0o750
        assert sorted(path.name for path in folder.parent.iterdir()) == ["chain.magis", "frontier"]

    def test_an_empty_folder_is_taken(self, magis: Magis, graph: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert magis("optimize", graph, *SEARCH, "-o", tmp_path / "empty").status == 0
        assert index_of(tmp_path / "empty")["plans"]

    def test_places_that_are_refused_before_the_search(
        self, magis: Magis, graph: Path, folder: Path, tmp_path: Path, no_search: None
    ) -> None:
        def refused(output: Path, *words: str) -> None:
            before = sorted(tmp_path.rglob("*"))
            done = magis("optimize", graph, *SEARCH, "-o", output)
            assert_user_error(done, "--output", str(output), *words)
            assert sorted(tmp_path.rglob("*")) == before

        refused(graph, "is a file")
        refused(tmp_path / "absent" / "frontier", "there is no folder")
        other = tmp_path / "other"
        other.mkdir()
        (other / "notes.txt").write_text("mine")
        refused(other, "no frontier that could be replaced")
        (other / "frontier.json").write_text("{}")
        refused(other, "JSON, but not a frontier that magis wrote")
        (folder / "notes.txt").write_text("mine")
        refused(folder, "notes.txt, which is no part of the frontier")
        (folder / "notes.txt").unlink()
        folder.chmod(0o555)
        refused(folder, "is read-only")
        folder.chmod(0o755)
        tmp_path.chmod(0o555)
        refused(folder, "is read-only")
        tmp_path.chmod(0o755)

    def test_a_full_disk_leaves_what_was_there(
        self, magis: Magis, graph: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change_index(folder, states_scored=77)
        calls = []

        def write_text(path: Path, text: str) -> None:
            calls.append(path)
            if len(calls) > 3:
                raise OSError(28, "No space left on device", str(path))
            path.write_text(text)

        monkeypatch.setattr("magis.runtime.frontier_folder.write_text", write_text)
        done = magis("optimize", graph, *SEARCH, "-o", folder)
        assert_user_error(done, "cannot be written (No space left on device)")
        assert len(calls) == 4
        assert index_of(folder)["states_scored"] == 77
        assert sorted(path.name for path in folder.parent.iterdir()) == ["chain.magis", "frontier"]

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            (["--memory-limit", "40%"], "--memory-limit"),
            (["--latency-limit", "1.1"], "--latency-limit"),
            (["--batch-parts", "2"], "--batch-parts"),
            (["--emit", "step.py"], "--emit"),
        ],
    )
    def test_options_that_ask_for_one_plan(
        self, magis: Magis, graph: Path, options: list[str], word: str
    ) -> None:
        done = magis("optimize", graph, "--frontier", *options)
        assert_user_error(done, f"{word} asks for one", "magis optimize FOLDER")

    def test_ctrl_c_keeps_what_was_found(self, tmp_path: Path) -> None:
        (tmp_path / "long.magis").write_text(chain(300))
        command = [sys.executable, "-m", "magis.cli", "optimize", "long.magis", "--frontier"]
        command += ["--time-budget", "300", "--threads", "1", "-o", "frontier", "--json"]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                time.sleep(6)
                assert process.poll() is None, "the search ended by itself: make the chain longer"
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=100)
            finally:
                process.kill()
        assert (process.returncode, err) == (0, "")
        data = json.loads(out)
        assert data["stop_reason"] == "interrupted"
        assert data["plans"][-1]["peak_bytes"] < data["baseline_peak_bytes"]
        assert len(index_of(tmp_path / "frontier")["plans"]) == len(data["plans"])

    def test_pytorch_is_not_imported(self, graph: Path, tmp_path: Path) -> None:
        new = tmp_path / "new"
        code = (
            "import sys\n"
            "from magis.cli import main\n"
            f"assert main(['optimize', {str(graph)!r}, *{SEARCH!r}, '-o', {str(new)!r}]) == 0\n"
            f"assert main(['optimize', {str(new)!r}, '--memory-limit', '40%']) == 0\n"
            "heavy = {'torch', 'transformers', 'numpy'} & sys.modules.keys()\n"
            "assert not heavy, heavy\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.usefixtures("no_search")
class TestChoice:
    @pytest.mark.parametrize("share", [0.2, 0.4, 0.613, 1.0])
    def test_the_fastest_plan_within_a_memory_limit(
        self, magis: Magis, written: Path, tmp_path: Path, share: float
    ) -> None:
        index = index_of(written)
        most = int(share * index["baseline_peak_bytes"])
        fits = [plan for plan in index["plans"] if plan["peak_bytes"] <= most]
        expected = min(fits, key=lambda plan: plan["seconds"])
        plan, code = tmp_path / "plan.json", tmp_path / "step.py"
        limit = f"{100 * share}%"
        done = magis(
            "optimize", written, "--memory-limit", limit, "-o", plan, "--emit", code, "--json"
        )
        assert (done.status, done.err) == (0, "")
        data = done.json
        assert (data["peak_bytes"], data["seconds"]) == (
            expected["peak_bytes"],
            expected["seconds"],
        )
        assert data["met"] is True
        assert data["limit_bytes"] == most
        assert data["limit"].startswith(f"memory at most {100 * share:g} % of the baseline's peak")
        saved = json.loads(plan.read_text())
        assert saved["text"] == json.loads((written / expected["file"]).read_text())["text"]
        assert saved["limit"] == data["limit"]
        compile(code.read_text(), str(code), "exec")

    @pytest.mark.parametrize("ratio", [1.0, 1.15, 1e9])
    def test_the_smallest_plan_within_a_latency_limit(
        self, magis: Magis, written: Path, ratio: float
    ) -> None:
        index = index_of(written)
        longest = ratio * index["baseline_seconds"] * (1 + 1e-6)
        fits = [plan for plan in index["plans"] if plan["seconds"] <= longest]
        data = magis("optimize", written, "--latency-limit", str(ratio), "--json").json
        assert data["peak_bytes"] == min(plan["peak_bytes"] for plan in fits)
        assert data["met"] is True

    def test_bytes(self, magis: Magis, written: Path) -> None:
        smallest = index_of(written)["plans"][-1]["peak_bytes"]
        done = magis("optimize", written, "--memory-limit", str(smallest), "--json")
        assert (done.status, done.json["peak_bytes"]) == (0, smallest)

    def test_no_plan_keeps_the_limit(self, magis: Magis, written: Path, tmp_path: Path) -> None:
        index = index_of(written)
        smallest = index["plans"][-1]["peak_bytes"]
        assert smallest > index["lower_bound_bytes"] == 512 * 1024
        plan = tmp_path / "plan.json"
        limit = ("--memory-limit", str(smallest - 1))
        done = magis("optimize", written, *limit, "-o", plan, "--json")
        assert done.status == 3
        assert (done.json["met"], done.json["peak_bytes"]) == (False, smallest)
        assert json.loads(plan.read_text())["promise"]["met"] is False
        assert done.err.count("magis: warning: ") == 1
        for words in (
            f"no plan of the frontier keeps the limit (memory at most {smallest - 1:,} bytes",
            f"the smallest takes {smallest / 1024:.2f} KiB",
            "the certified lower bound is 512.00 KiB",
        ):
            assert words in done.err

    def test_no_plan_can_keep_the_limit(self, magis: Magis, written: Path, tmp_path: Path) -> None:
        plan = tmp_path / "plan.json"
        done = magis("optimize", written, "--memory-limit", "500000", "-o", plan)
        assert_user_error(
            done, "certified lower bound of 524,288 bytes", "Of the frontier, the smallest takes"
        )
        assert not plan.exists()

    @pytest.mark.parametrize(
        "option",
        [
            ["--time-budget", "3"],
            ["--state-budget", "0"],
            ["--seed", "0"],
            ["--threads", "2"],
            ["--no-fission"],
            ["--fission"],
            ["--batch-parts", "2"],
            ["--no-swap"],
            ["--host-memory", "1GiB"],
            ["--offload-to", "host"],
            ["--device", "cpu"],
            ["--frontier"],
        ],
    )
    def test_options_of_a_search(self, magis: Magis, written: Path, option: list[str]) -> None:
        done = magis("optimize", written, "--memory-limit", "40%", *option)
        assert_user_error(done, "says how to search", option[0].replace("no-", ""))

    def test_the_frontier_stays_as_it_is(self, magis: Magis, folder: Path) -> None:
        before = {path: path.read_text() for path in folder.iterdir()}
        for option, name in (("-o", "plan-001.json"), ("-o", "mine.json"), ("--emit", "step.py")):
            done = magis("optimize", folder, "--memory-limit", "40%", option, folder / name)
            assert_user_error(done, "lies in the frontier's folder")
        assert {path: path.read_text() for path in folder.iterdir()} == before

    def test_a_limit_is_needed(self, magis: Magis, written: Path) -> None:
        assert_user_error(magis("optimize", written), "no limit was given")


class TestDamage:
    def damaged(self, magis: Magis, folder: Path, *words: str) -> None:
        assert_user_error(magis("optimize", folder, "--memory-limit", "100%"), *words)

    def test_no_frontier(self, magis: Magis, tmp_path: Path) -> None:
        self.damaged(magis, tmp_path, str(tmp_path), "holds no frontier")

    @pytest.mark.parametrize("end", [0, 100, -5])
    def test_an_index_cut_off(self, magis: Magis, folder: Path, end: int) -> None:
        index = folder / "frontier.json"
        index.write_text(index.read_text()[:end])
        self.damaged(magis, folder, str(index), "the frontier is damaged")

    @pytest.mark.parametrize("text", ["[]", "7", '{"magis": 1}', "\0", "[" * 100_000])
    def test_another_file_of_that_name(self, magis: Magis, folder: Path, text: str) -> None:
        (folder / "frontier.json").write_text(text)
        self.damaged(magis, folder, "frontier.json")

    def test_a_newer_format(self, magis: Magis, folder: Path) -> None:
        change_index(folder, magis="9.0", format=2)
        self.damaged(magis, folder, "written by magis 9.0 in format 2", "reads format 1")

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("device", "toaster", '"device" must be a device profile'),
            ("device", 3, '"device" must be a text'),
            ("baseline_peak_bytes", "many", '"baseline_peak_bytes" must be an integer'),
            ("lower_bound_bytes", 2**70, '"lower_bound_bytes" must be an integer'),
            ("exact", 1, '"exact" must be true or false'),
            ("plans", {}, '"plans" must be a list'),
            ("plans", [], '"plans" must be a list of at least one plan'),
            ("plans", [3], '"plans[0]" must be an object'),
            ("plans", [{}], "no field 'plans[0].peak_bytes'"),
        ],
    )
    def test_fields(
        self, magis: Magis, folder: Path, field: str, value: object, words: str
    ) -> None:
        change_index(folder, **{field: value})
        self.damaged(magis, folder, "the frontier", words)

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("file", "../plan-001.json", '"plans[1].file" must be a name'),
            ("file", "plan-001.json", '"plans[1].file" must be a name of its own'),
            ("parts", ["two"], '"plans[1].parts" must be an integer'),
            ("seconds", 0.0, '"plans[1]" must be slower and smaller than the plan before'),
            ("peak_bytes", 2**40, '"plans[1]" must be slower and smaller than the plan before'),
        ],
    )
    def test_fields_of_a_plan(
        self, magis: Magis, folder: Path, field: str, value: object, words: str
    ) -> None:
        plans = index_of(folder)["plans"]
        plans[1][field] = value
        change_index(folder, plans=plans)
        self.damaged(magis, folder, words)

    def test_a_plan_that_is_missing(self, magis: Magis, folder: Path) -> None:
        (folder / "plan-001.json").unlink()
        self.damaged(magis, folder, "plan-001.json", "cannot be read")

    def test_a_plan_cut_off(self, magis: Magis, folder: Path) -> None:
        plan = folder / "plan-001.json"
        plan.write_text(plan.read_text()[:1000])
        self.damaged(magis, folder, "plan-001.json", "damaged or cut off")

    def test_another_plan_in_its_place(self, magis: Magis, folder: Path) -> None:
        shutil.copy(folder / "plan-002.json", folder / "plan-001.json")
        self.damaged(magis, folder, "plan-001.json: is not the plan that frontier.json")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_measuring_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((io.StringIO(), False), (_Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        with counting("measuring parts", 40) as show:
            show(12)
            time.sleep(0.3)
        assert ("measuring parts, 12 of 40" in stream.getvalue()) == shown
