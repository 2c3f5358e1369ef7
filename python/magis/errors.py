"""What can go wrong through no fault of magis. Every message names the thing and says what to do."""


class MagisError(Exception):
    """Base of all errors that a user can cause and mend. `str(error)` is complete, fit to be shown as it is."""


class CaptureError(MagisError):
    """The model, the loss or the batch cannot be captured; names the module and the source line."""


class LimitError(MagisError):
    """A limit is not understood, or lies below the certified lower bound."""


class LimitNotMetError(MagisError):
    """With `strict=True`: the best plan found does not keep the limit."""


class GuardError(MagisError):
    """Something frozen at capture has changed (shape, mode, parameter identity, ...) and replanning was not allowed."""


class ReplayError(MagisError):
    """A captured step does not reproduce eager PyTorch; names the first tensor that differs."""


class PlanError(MagisError):
    """A plan does not belong to this graph, or its program is not a valid execution of it."""


class TornStep(MagisError):  # noqa: N818 - it names a state, not only an error
    """A step was interrupted while it added into existing gradients; `touched` names those already changed."""

    def __init__(self, message: str, touched: list[str]) -> None:
        super().__init__(message)
        self.touched = touched
