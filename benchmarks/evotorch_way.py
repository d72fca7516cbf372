"""evotorch (Toklu et al., 2023): `GymNE` with ray actors and PGPE, as its documentation shows it.

Kind to the peer: one environment per actor for good, the environment checker off, one torch thread per actor, actors up
and warm before the clock starts.
"""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from pathlib import Path

import numpy as np

from case import SIGMA, THREADS, Case, Measurement, make_env


def measure(case: Case) -> Measurement:
    """Time evotorch with observation normalisation, as its documentation recommends and as nesht does by default."""
    return _measure(case, normalise=True)


def measure_raw(case: Case) -> Measurement:
    """Time evotorch on raw features: less work than nesht does."""
    return _measure(case, normalise=False)


def _measure(case: Case, normalise: bool) -> Measurement:
    """Time whole generations until the time is up; steps are what GymNE itself counts."""
    here = str(Path(__file__).parent)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": here, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    import ray
    import torch
    from evotorch.algorithms import PGPE
    from evotorch.neuroevolution import GymNE
    from evotorch.neuroevolution.net import RunningStat
    from evotorch.tools import set_default_logger_config

    set_default_logger_config(logger_level=logging.WARNING, override=True)
    ray.init(num_cpus=THREADS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        problem = GymNE(
            partial(make_env, case.env),
            "Linear(obs_length, act_length)",
            observation_normalization=normalise,
            num_actors=THREADS,
        )
        if normalise:
            stats = RunningStat()
            for features in case.typical_features(1000):
                stats.update(features.astype(np.float32))
            problem.set_observation_stats(stats)
        searcher = PGPE(
            problem,
            popsize=case.peer_members,
            center_init=torch.as_tensor(case.parameters() if normalise else case.raw_parameters(), dtype=torch.float32),
            stdev_init=SIGMA,
            center_learning_rate=0.0032,
            stdev_learning_rate=0.1,
            optimizer="clipup",
        )
        problem.evaluate(problem.generate_batch(THREADS))  # starts the actors
        before, generations, start = int(problem.interaction_count), 0, time.perf_counter()
        while time.perf_counter() - start < case.seconds:
            searcher.step()
            generations += 1
        seconds = time.perf_counter() - start
        steps = int(searcher.status["total_interaction_count"]) - before
        return Measurement(steps, seconds, note=f"{steps / generations / case.peer_members:.0f} steps per episode")
    finally:
        ray.shutdown()
