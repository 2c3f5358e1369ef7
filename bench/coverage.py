"""How much of what stands at the peak lies in one region, on training graphs of full size.

    python bench/coverage.py [--models bert vit ...] [--json FILE]

Found: 100 % of the hotspots of BERT, GPT-2, GPT-Neo, BTLM, Llama, U-Net and U-Net++ without batch
norm, 99.8 % of ViT's, 97.5 % of ResNet-50's without batch norm. With batch norm in training mode no
region of the convnets saves anything: each batch norm ends the axis of the batch.

Hotspots are the tensors live at the peak of the captured graph in program order, inputs apart. One
lies strictly inside a region if it is made there and read nowhere else. For each model: the region
of positive saving in two parts that covers most, and what ends the axis of the batch where it does
not reach everything. Convnets come with batch norm in training mode, which ends it, and without, as
the paper has them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

MODELS = ("bert", "vit", "gpt2", "gpt-neo", "btlm", "llama", "resnet50", "unet", "unet++")
CONVNETS = ("resnet50", "unet", "unet++")
MOST_OBSTACLES = 3


def captured(name: str, variant: str) -> Any:
    from magis import _core, zoo
    from magis.capture import capture

    workload = zoo.build(name, size="full", variant=variant, device="meta")
    return _core.Graph.parse(capture(*workload, device="cpu").text, name)


def readers(graph: Any) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Of each tensor, the operator that makes it; of each tensor, the operators that read it, views
    looked through, "" for an output. Operators go by their first results."""
    from magis.verify.text import parse

    document = parse(graph.text())
    read: dict[str, set[str]] = {}
    for operation in document.operators.values():
        for tensor in document.read_tensors(operation):
            read.setdefault(tensor, set()).add(operation.results[0])
    for output in document.outputs:
        read.setdefault(document.owner(output.name), set()).add("")
    return document.maker, read


def covered(name: str, variant: str) -> dict[str, Any]:
    from magis import _core

    graph = captured(name, variant)
    regions = _core.fission_regions(graph, device="cpu", limit=64)
    opened = regions.opened()
    hotspots = _core.Plan.program_order(opened).simulate("cpu").hotspots
    maker, read = readers(opened)
    live = {spot.name: spot.bytes for spot in hotspots if spot.name in maker}
    total = sum(live.values())
    best = (0.0, -1)
    for region in range(len(regions)):
        inside = set(regions.operators(region))
        held = sum(
            size
            for tensor, size in live.items()
            if maker[tensor] in inside and read.get(tensor, set()) <= inside
        )
        if regions.saving(region) > 0:
            best = max(best, (held / total, -region - 1))
    share, region = best[0], -best[1] - 1
    found = len(regions) > 0
    return {
        "model": name,
        "variant": variant,
        "hotspot_bytes": total,
        "covered": share,
        "region": regions.describe(region) if found else "none that saves anything",
        "saving_bytes": regions.saving(region) if found else 0,
        "obstacles": regions.obstacles(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.models:
        for variant in ("paper", "real") if name in CONVNETS else ("real",):
            row = covered(name, variant)
            rows.append(row)
            kind = f"{variant} variant" if name in CONVNETS else ""
            print(
                f"{name:9} {kind:15} {row['covered']:6.1%} of {row['hotspot_bytes'] / 1e9:6.2f} GB,"
                f" saving {row['saving_bytes'] / 1e9:6.2f} GB: {row['region']}",
                flush=True,
            )
            for obstacle in row["obstacles"][:MOST_OBSTACLES]:
                print(f"{'':9} {obstacle}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
