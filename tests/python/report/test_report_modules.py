"""Grouping module paths so that a table has few rows and says much."""

from magis.report.modules import NO_MODULE, grouping, without_layer_number


def groups(paths: list[str], most: int) -> list[str]:
    group = grouping(paths, most)
    return sorted({group(path) for path in paths})


def test_layer_numbers_become_stars() -> None:
    assert without_layer_number("encoder.layer.12.mlp") == "encoder.layer.*.mlp"
    assert without_layer_number("0.conv1") == "*.conv1"
    assert without_layer_number("layer4.conv2") == "layer4.conv2"


def test_paths_that_fit_stay_whole() -> None:
    assert groups(["a.b.c", "a.b.d", "e"], most=3) == ["a.b.c", "a.b.d", "e"]


def test_the_deepest_cut_that_fits() -> None:
    paths = [f"net.{i}.{part}" for i in range(4) for part in ("conv", "norm", "act")]
    assert groups(paths, most=6) == ["net.0", "net.1", "net.2", "net.3"]


def test_many_layers_are_told_apart_by_part_instead() -> None:
    paths = [f"h.{i}.{part}" for i in range(24) for part in ("attn.q", "attn.k", "mlp")]
    assert groups(paths, most=15) == ["h.*.attn.k", "h.*.attn.q", "h.*.mlp"]


def test_no_module_has_a_name() -> None:
    assert groups(["", "a"], most=5) == [NO_MODULE, "a"]


def test_too_many_even_at_the_first_component() -> None:
    paths = [f"part{letter}.x" for letter in "abcdefgh"]
    assert groups(paths, most=3) == [f"part{letter}" for letter in "abcdefgh"]
