#!/usr/bin/env python3
"""Measures trials that do nothing, with Optuna, and with a pool of processes that gets one trial at a time."""

import multiprocessing
import time

import optuna

TRIALS = 1000
POOL_TRIALS = 40_000
PROCESSES = 4


def nothing(x):
    return x


def report(name, value, unit):
    print(f"{name} {value:.6g} {unit}", flush=True)


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"random": optuna.samplers.RandomSampler(0), "tpe": optuna.samplers.TPESampler(seed=0)}
    for name, sampler in samplers.items():
        study = optuna.create_study(sampler=sampler)
        begin = time.perf_counter()
        study.optimize(lambda trial: sum((trial.suggest_float(f"x{i}", -5, 5) - 1) ** 2 for i in range(10)),
                       n_trials=TRIALS)
        report(f"optuna_{name}_trials_per_s", TRIALS / (time.perf_counter() - begin), "1/s")
    with multiprocessing.Pool(PROCESSES) as pool:
        pool.map(nothing, range(100))
        begin = time.perf_counter()
        for _ in pool.imap_unordered(nothing, (0.5 * i for i in range(POOL_TRIALS)), chunksize=1):
            pass
        report("pool_empty_trials_per_s", POOL_TRIALS / (time.perf_counter() - begin), "1/s")


if __name__ == "__main__":
    main()
