"""What can go wrong through no fault of magis: every message names the thing and the way out."""


class MagisError(Exception):
    """Base of all errors that a user can cause and mend. `str(error)` is fit to be shown."""


class CaptureError(MagisError):
    """The model, the loss or the batch cannot be captured; names the module and the source line."""


class LimitError(MagisError):
    """A limit is not understood, or lies below the certified lower bound."""


class LimitNotMetError(MagisError):
    """With `strict=True`: the best plan found does not keep the limit."""


class GuardError(MagisError):
    """Something frozen at capture (shape, mode, parameter) changed; replanning was ruled out."""


class ReplayError(MagisError):
    """A captured step does not reproduce eager PyTorch; names the first tensor that differs."""


class PlanError(MagisError):
    """A plan does not belong to this graph, or its program is not a valid execution of it."""


class MissingExtraError(MagisError):
    """A package that only some of magis needs is not installed; names it and how to get it."""


class HostMemoryError(MagisError):
    """What a plan keeps on the host cannot be had: memory, pinned memory, or room on disk."""


class ReplicaError(MagisError):
    """Of several processes that train one model another has failed, or cannot be reached."""


class TornStep(MagisError):
    """A step was interrupted while it added into gradients; `touched` names those changed."""

    def __init__(self, message: str, touched: list[str]) -> None:
        super().__init__(message)
        self.touched = touched
