"""Log lines of a running training, and progress bars, on terminals only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ProgressCallback

logger = logging.getLogger(__name__)

_LINES = 10


def on_terminal() -> bool:
    """Check whether bars are shown: not if standard error is a file, nor if only errors are logged."""
    return sys.stderr is not None and sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)


def readable(metrics: Mapping[str, Any]) -> str:
    """Format metrics on one line: ``sts 81.94, score 88.50``."""
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:.2f}' if isinstance(value, float) else value}"
        for name, value in metrics.items()
    )


class LossLines(TrainerCallback):  # type: ignore[misc]
    """Callback that logs the loss ten times in a training, where there is no progress bar."""

    def __init__(self) -> None:
        self._logged = 0

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Log the newest loss if a tenth of the steps has passed since the last line."""
        line = state.global_step * _LINES // max(state.max_steps, 1)
        if logs and "loss" in logs and line > self._logged and state.is_world_process_zero:
            self._logged = line
            logger.info("  step %d of %d: loss %.3f", state.global_step, state.max_steps, logs["loss"])


class LossProgress(ProgressCallback):  # type: ignore[misc]
    """A progress bar that shows loss, learning rate and dev score beside speed and time left."""

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Show the newest values after the bar."""
        if self.training_bar is not None and logs:
            shown = {key: logs[key] for key in ("loss", "eval_score") if key in logs}
            self.training_bar.set_postfix(
                {key: f"{value:.3f}" for key, value in shown.items()}, refresh=False
            )
