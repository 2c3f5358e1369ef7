"""The allocator hook, seen from processes that run under it."""

import os
import subprocess
import sys

import pytest
from hooked import under_hook

from magis import measure
from magis.measure import hook

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the hook is for Linux"
)


def test_live_peak_and_count_are_exact():
    out = under_hook("""
        hook.reset()
        start = hook.read()
        a = torch.empty(1000)               # 4000
        b = torch.empty(250, dtype=torch.float64)   # 2000
        del a
        c = torch.empty(7, dtype=torch.int8)   # 7
        end = hook.read()
        print(end.live - start.live, end.peak - start.live, end.allocations)
    """)
    assert out == "2007 6000 3"


def test_what_was_there_before_lowers_the_level_when_it_goes():
    out = under_hook("""
        old = torch.empty(1000)
        hook.reset()
        start = hook.read()
        del old
        new = torch.empty(600)
        end = hook.read()
        print(end.live - start.live, end.peak - start.live)
    """)
    assert out == "-1600 0"


def test_the_table_grows_and_forgets():
    # 60,000 blocks live at once need 2^17 slots; half of them go, in a scattered order.
    out = under_hook("""
        hook.reset()
        start = hook.read()
        blocks = [torch.empty(i % 50 + 1, dtype=torch.int8) for i in range(60_000)]
        full = hook.read()
        sizes = [block.nbytes for block in blocks]
        for i in sorted(range(60_000), key=lambda i: i * 48_271 % 60_013)[::2]:
            sizes[i] = 0
            blocks[i] = None
        half = hook.read()
        print(full.live - start.live == 60_000 * 51 // 2, half.live - start.live == sum(sizes))
        blocks.clear()
        print(hook.read().live - start.live, full.allocations)
    """)
    assert out == "True True\n0 60000"


def test_threads_are_counted_together():
    out = under_hook("""
        import threading
        hook.reset()
        start = hook.read()
        kept = []
        def work():
            for i in range(2000):
                block = torch.empty(64)
                if i % 4 == 0:
                    kept.append(block)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        del threads
        end = hook.read()
        print(end.live - start.live == 4 * 500 * 256, end.allocations)
    """)
    assert out == "True 8000"


def test_a_fork_can_still_allocate():
    out = under_hook("""
        import os, threading
        stop = False
        def churn():
            while not stop:
                torch.empty(64)
        worker = threading.Thread(target=churn)
        worker.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                torch.empty(64)
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ")
        stop = True
        worker.join()
    """)
    assert out == " ".join(["7"] * 20)


def test_only_blocks_of_pytorch_are_counted():
    out = under_hook("""
        import ctypes
        libc = ctypes.CDLL(None)
        hook.reset()
        start = hook.read()
        p = ctypes.c_void_p()
        libc.posix_memalign(ctypes.byref(p), 64, 5000)
        libc.aligned_alloc.restype = libc.memalign.restype = ctypes.c_void_p
        q = ctypes.c_void_p(libc.aligned_alloc(4096, 8192))
        r = ctypes.c_void_p(libc.memalign(128, 100))
        middle = hook.read()
        for block in (p, q, r): libc.free(block)
        end = hook.read()
        print(*(s.other_live - start.other_live for s in (middle, end)), middle.live - start.live)
    """)
    assert out == "13292 0 0"


@pytest.mark.parametrize("argv", [["{file}", "a b", "--c"], ["-m", "restarted", "a b", "--c"]])
def test_a_process_restarts_itself_under_the_hook(tmp_path, argv):
    (tmp_path / "restarted.py").write_text(
        "import sys\nfrom magis import measure\n"
        "print('start', measure.available())\n"
        "measure.reexec_with_hook()\n"
        "print(measure.available(), sys.argv[1:])\n"
    )
    command = [sys.executable, *(arg.format(file=tmp_path / "restarted.py") for arg in argv)]
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["start False", "start True", "True ['a b', '--c']"]


def test_a_restart_without_effect_is_an_error(monkeypatch):
    if measure.available():
        pytest.skip("this process runs under the hook")
    monkeypatch.setenv("MAGIS_ALLOC_HOOK_RESTARTED", "1")
    with pytest.raises(measure.HookError, match="LD_PRELOAD has no effect"):
        measure.reexec_with_hook()


def test_the_environment_keeps_what_is_preloaded():
    once = measure.environment({"LD_PRELOAD": "/lib/other.so", "A": "b"})
    assert once["LD_PRELOAD"] == f"{measure.library_path()}:/lib/other.so"
    assert once["A"] == "b"
    assert measure.environment(once) == once


def test_reading_without_the_hook_says_what_to_do():
    if measure.available():
        pytest.skip("this process runs under the hook")
    with pytest.raises(measure.HookError, match="run_with_hook"):
        hook.read()


def test_building_needs_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(hook, "_PACKAGED", tmp_path / "missing.so")
    monkeypatch.setattr(hook.shutil, "which", lambda name: None)
    with pytest.raises(measure.HookError, match="no C compiler"):
        measure.library_path()


def test_building_on_demand(monkeypatch, tmp_path):
    monkeypatch.setattr(hook, "_PACKAGED", tmp_path / "missing.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built = measure.library_path()
    assert built.parent == tmp_path / "cache" / "magis"
    assert [path.suffix for path in built.parent.iterdir()] == [".so"]
    stamp = built.stat().st_mtime_ns
    assert measure.library_path().stat().st_mtime_ns == stamp
