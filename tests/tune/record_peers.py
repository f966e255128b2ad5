#!/usr/bin/env python3
"""Writes down what Optuna 5.0.0 and cmaes make of some histories, for searchers_test to compare with:

  pip install optuna==5.0.0 cmaes==0.13.1 numpy scipy
  tests/tune/record_peers.py tests/tune/data
"""

import json
import pathlib
import sys

import cmaes
import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
from optuna.samplers._tpe.sampler import default_weights

# Which of two equal numbers comes first numpy leaves open; the earlier trial, here.
argsort = np.argsort
np.argsort = lambda numbers, **options: argsort(numbers, **{**options, "kind": "stable"})

# Which way an eigenvector points, too: its largest part is above zero.
eigh = np.linalg.eigh


def eigh_one_way(matrix):
    values, vectors = eigh(matrix)
    largest = vectors[np.abs(vectors).argmax(axis=0), range(len(matrix))]
    return values, vectors * np.sign(largest)


np.linalg.eigh = eigh_one_way

HISTORIES = 50
KINDS = {
    "real": lambda: FloatDistribution(-3.0, 5.0),
    "log": lambda: FloatDistribution(1e-4, 1e-1, log=True),
    "steps": lambda: FloatDistribution(0.0, 2.0, step=0.25),
    "whole": lambda: IntDistribution(2, 17),
    "whole_log": lambda: IntDistribution(1, 1000, log=True),
    "choice": lambda: CategoricalDistribution(("a", "b", "c", "d")),
}


def some_values(rng, distribution, count):
    if isinstance(distribution, CategoricalDistribution):
        return rng.integers(0, 4, count).astype(float)
    low, high, step = distribution.low, distribution.high, distribution.step
    if distribution.log:
        values = np.exp(rng.uniform(np.log(low), np.log(high), count))
    else:
        # Crowded, as trials become.
        values = low + (high - low) * rng.beta(rng.uniform(0.5, 4), rng.uniform(0.5, 4), count)
    if step is not None:
        values = np.clip(np.round((values - low) / step) * step + low, low, high)
    return values


def parzen(number):
    """Kernels of one history."""
    rng = np.random.default_rng(number)
    continuous = number % 2 == 0
    names = ["real", "log"] if continuous else list(KINDS)
    chosen = [names[i % len(names)] for i in range(number % len(names), number % len(names) + 1 + number % 3)]
    count = [0, 1, 2, 5, 24, 26, 60, 120][number // 2 % 8]
    space = {f"x{i}": KINDS[kind]() for i, kind in enumerate(chosen)}
    history = {name: some_values(rng, its, count) for name, its in space.items()}
    points = {name: some_values(rng, its, 6) for name, its in space.items()}
    its = _ParzenEstimator(history, space, _ParzenEstimatorParameters(1.0, True, False, default_weights, True))
    mixture = its._mixture_distribution
    numeric = [d if hasattr(d, "mu") else None for d in mixture.distributions]
    return {
        "kinds": chosen,
        "history": [history[name].tolist() for name in space],
        "points": [points[name].tolist() for name in space],
        "weights": mixture.weights.tolist(),
        "means": [d.mu.tolist() if d is not None else [] for d in numeric],
        "deviations": [d.sigma.tolist() if d is not None else [] for d in numeric],
        "log_densities": its.log_pdf(points).tolist(),
    }


class Recorded:
    """Normal numbers that are remembered."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.all = []

    def randn(self, count):
        numbers = self.rng.randn(count)
        self.all.append(numbers.tolist())
        return numbers


def cma(number):
    dimensions = 2 + number % 4
    steps = np.zeros(dimensions)
    if number % 2 == 1:
        steps[0] = 1 / 4
        steps[dimensions - 1] = 1 / 9 if number % 3 else 1
    bounds = np.tile([0.0, 1.0], (dimensions, 1))
    mean = np.full(dimensions, 0.5)
    with_steps = bool(steps.any())
    if with_steps:
        its = cmaes.CMAwM(mean=mean, sigma=1 / 6, bounds=bounds, steps=steps, n_max_resampling=10 * dimensions)
        core = its._cma
    else:
        its = cmaes.CMA(mean=mean, sigma=1 / 6, bounds=bounds, n_max_resampling=10 * dimensions)
        core = its
    core._rng = Recorded(number)
    target = np.random.default_rng(number).uniform(0, 1, dimensions)
    generations = []
    for _ in range(12):
        solutions = []
        for _ in range(its.population_size):
            asked = its.ask()
            tried, point = asked if with_steps else (asked, asked)
            solutions.append((point, float(np.sum((10.0 ** np.arange(dimensions)) * (tried - target) ** 2))))
        values = [value for _, value in solutions]
        normals, core._rng.all = core._rng.all, []
        its.tell(solutions)
        generations.append({
            "normals": normals,
            "values": values,
            "mean": core._mean.tolist(),
            "sigma": float(core._sigma),
            "covariance": core._C.tolist(),
        })
    return {"steps": steps.tolist(), "population": its.population_size, "generations": generations}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, record, count in (("parzen.json", parzen, HISTORIES), ("cma.json", cma, 8)):
        lines = ",\n".join(json.dumps(record(number)) for number in range(count))
        (folder / name).write_text(f"[\n{lines}\n]\n")


main()
