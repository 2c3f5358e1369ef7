"""The demo's tables: what each method costs, and what it computes."""

from statistics import median

from rich import box
from rich.table import Table

from magis.demo.trial import Trial, relative_time

TITLES = {
    "eager": "eager",
    "checkpointing": "HF checkpointing",
    "accumulation": "accumulation (4)",
    "magis": "magis.optimize",
}
SHOWN_LOSSES = 4


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f}"


def costs(trials: list[Trial], title: str) -> Table:
    """Memory and time of a step; the first trial is what the others are compared with."""
    caption = (
        "Peaks: above what was allocated when the step started, so gradients are in them "
        "and parameters are not. Times: of forward and backward, compared round by round."
    )
    columns = ("peak\nMB", "promised\nMB", "of\neager", "min\nms", "median\nms", "of\neager")
    table = _table(title, caption, columns)
    reference = trials[0]
    for trial in trials:
        peak = max(trial.peak_bytes)
        promised = trial.promised_peak_bytes
        table.add_row(
            TITLES[trial.name],
            megabytes(peak),
            "" if promised is None else megabytes(promised),
            f"{peak / max(reference.peak_bytes):.3f}",
            f"{min(trial.seconds) * 1e3:.0f}",
            f"{median(trial.seconds) * 1e3:.0f}",
            f"{relative_time(trial, reference):.3f}",
        )
    return table


def losses(trials: list[Trial], dropout: float) -> Table:
    """Losses along the run, how many are eager's bit for bit, and how far gradients differ."""
    count = len(trials[0].losses)
    gaps = max(min(SHOWN_LOSSES, count) - 1, 1)
    shown = sorted({round(index * (count - 1) / gaps) for index in range(gaps + 1)})
    caption = "Gradients: the largest difference to eager's of any element on any step."
    if dropout and any(trial.name == "accumulation" for trial in trials):
        caption += " Accumulation draws other dropout masks, part by part."
    columns = (*(f"loss\n{index + 1}" for index in shown), "equal\nlosses", "gradients\ndiffer by")
    table = _table(None, caption, columns)
    for trial in trials:
        pairs = zip(trial.losses, trials[0].losses, strict=True)
        table.add_row(
            TITLES[trial.name],
            *(f"{trial.losses[index]:.4f}" for index in shown),
            f"{sum(mine == eager for mine, eager in pairs)}/{count}",
            f"{max(trial.gradient_differences):.0e}",
        )
    return table


def _table(title: str | None, caption: str, columns: tuple[str, ...]) -> Table:
    """A first column for the method, the given ones for its figures; fits 80 columns."""
    table = Table(
        title=title,
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
