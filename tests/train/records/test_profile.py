"""Profiles by key and by signal, of the process that is asked."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from data.planning.stream import LoaderState
from mllm_jax.config.run import RunConfig
from mllm_jax.runtime.profile_request import PROFILE, ProfileRequest
from mllm_jax.train.events import StepEnded, StepStarted
from mllm_jax.train.listeners.profile import StepProfile
from mllm_jax.train.state.progress import Progress


def profiles(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.xplane.pb"))


def take(profile: StepProfile, step: int) -> None:
    profile(StepStarted(step))
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        scalars: dict[str, Any] = {"loss": jax.jit(jnp.sin)(float(step))}
    profile(StepEnded(step, 0.1, (), scalars, 0.1))


@pytest.mark.parametrize("steps", [None, (2, 3)])
def test_a_signal_profiles_the_next_steps(tmp_path: Path, steps: tuple[int, int] | None) -> None:
    own = RunConfig(name="x", directory=str(tmp_path), profile_steps=steps, profile_on_signal=2)
    progress = Progress(0, LoaderState(0))
    with ProfileRequest(enabled=True) as asked:
        profile = StepProfile(own, progress, asked.consume)
        for step in range(1, 9):
            if step == 5:
                time.sleep(1.1 if steps else 0)  # folders of profiles are named by the second
                os.kill(os.getpid(), PROFILE)
            take(profile, step)
            found = (steps is not None) * (step >= 3) + (step >= 6)
            assert len(profiles(tmp_path)) == found, step
    (*_, last) = profiles(tmp_path)
    content = last.read_bytes()
    assert b"train" in content
    assert progress.paused > 0
    assert signal.getsignal(PROFILE) == signal.SIG_DFL


def test_a_signal_may_have_no_effect(tmp_path: Path) -> None:
    own = RunConfig(name="x", directory=str(tmp_path), profile_on_signal=None)
    with ProfileRequest(enabled=False) as asked:
        profile = StepProfile(own, Progress(0, LoaderState(0)), asked.consume)
        os.kill(os.getpid(), PROFILE)
        take(profile, 1)
        profile.close()
    assert not profiles(tmp_path)
