#!/usr/bin/env python3
"""Writes down how far Optuna 5.0.0's searchers come on the 24 functions of BBOB, and what the functions are at some
points, for quality_test to compare with (minutes):

  pip install optuna==5.0.0 cmaes==0.13.1 numpy coco-experiment
  tests/tune/record_quality.py tests/tune/data
"""

import json
import pathlib
import sys

import cocoex
import numpy as np
import optuna

DIMENSIONS = 5
TRIALS = {"random": 500, "tpe": 200, "cma_es": 500}
SEEDS = 5  # of each, on each instance


def points_of(problem, function, instance):
    rng = np.random.default_rng(100 * function + instance)
    points = rng.uniform(-5, 5, (2, DIMENSIONS)).tolist()
    return {"function": function, "instance": instance, "points": points, "values": [float(problem(x)) for x in points]}


def best_of(problem, kind, seed):
    samplers = {
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "cma_es": lambda: optuna.samplers.CmaEsSampler(seed=seed),
    }
    study = optuna.create_study(sampler=samplers[kind]())
    names = [f"x{i}" for i in range(DIMENSIONS)]
    study.optimize(lambda trial: float(problem([trial.suggest_float(name, -5, 5) for name in names])), TRIALS[kind])
    return study.best_value


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = pathlib.Path(sys.argv[1])
    functions, runs = [], []
    for problem in cocoex.Suite("bbob", "", f"dimensions:{DIMENSIONS} instance_indices:1-5"):
        function, instance = problem.id_function, problem.id_instance
        functions.append(points_of(problem, function, instance))
        best = {kind: [best_of(problem, kind, seed) for seed in range(SEEDS)] for kind in TRIALS}
        runs.append({"function": function, "instance": instance, "best": best})
        print(function, instance, best, flush=True)
    for name, records in (("bbob.json", functions), ("quality.json", runs)):
        (folder / name).write_text("[\n" + ",\n".join(json.dumps(each) for each in records) + "\n]\n")


main()
