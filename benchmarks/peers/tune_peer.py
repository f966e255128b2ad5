#!/usr/bin/env python3
"""Measures trials that do nothing, with Optuna and with pools of Python processes, and Optuna's proposals.

The parameters of a trial are those of pharos-bench: x0 and x1, each drawn from -5 to 5. The result of a trial is x0.
Each figure that has several settings is that of the fastest one.
"""

import concurrent.futures
import multiprocessing
import pathlib
import random
import statistics
import tempfile
import time

PROCESSES = 4
TRIALS = 1000
POOL_TRIALS = 200_000
POOL_TRIALS_ONE_BY_ONE = 40_000
CHUNKS = (16, 128, 1024)
ASKS = 50


def nothing(params: dict) -> float:
    return params["x0"]


def proposals(count: int):
    draw = random.Random(1)
    return ({"x0": draw.uniform(-5, 5), "x1": draw.uniform(-5, 5)} for _ in range(count))


def report(name: str, value: float, unit: str) -> None:
    print(f"{name} {value:.6g} {unit}", flush=True)


def rate_of(results, count: int) -> float:
    """Returns how many of `count` results come in a second."""
    began = time.perf_counter()
    if sum(1 for _ in results()) != count:
        raise SystemExit("tune_peer.py: results are missing")
    return count / (time.perf_counter() - began)


def measure_pools() -> None:
    """A pool gets one trial after the other, or trials in chunks, of which the pool returns all results together."""
    with multiprocessing.Pool(PROCESSES) as pool:
        pool.map(nothing, proposals(100))
        one_by_one = rate_of(lambda: pool.imap_unordered(nothing, proposals(POOL_TRIALS_ONE_BY_ONE)),
                             POOL_TRIALS_ONE_BY_ONE)
        chunked = [rate_of(lambda: pool.imap_unordered(nothing, proposals(POOL_TRIALS), chunksize=chunk), POOL_TRIALS)
                   for chunk in CHUNKS]
    with concurrent.futures.ProcessPoolExecutor(PROCESSES) as pool:
        list(pool.map(nothing, proposals(100)))
        chunked += [rate_of(lambda: pool.map(nothing, proposals(POOL_TRIALS), chunksize=chunk), POOL_TRIALS)
                    for chunk in CHUNKS]
    report("pool_empty_trials_per_s", one_by_one, "1/s")
    report("pool_empty_trials_per_s_in_chunks", max(chunked), "1/s")


def measure_optuna() -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def two(trial: optuna.Trial) -> float:
        x0 = trial.suggest_float("x0", -5, 5)
        trial.suggest_float("x1", -5, 5)
        return x0

    def rate(threads: int, storage=None) -> float:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), storage=storage)
        began = time.perf_counter()
        study.optimize(two, n_trials=TRIALS, n_jobs=threads)
        return TRIALS / (time.perf_counter() - began)

    report("optuna_random_trials_per_s", max(rate(threads) for threads in (1, PROCESSES)), "1/s")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        rates = []
        for threads in (1, PROCESSES):
            file = optuna.storages.journal.JournalFileBackend(str(pathlib.Path(folder) / f"journal-{threads}"))
            rates.append(rate(threads, optuna.storages.JournalStorage(file)))
        report("optuna_random_trials_per_s_journal", max(rates), "1/s")
    measure_tpe(optuna)


def measure_tpe(optuna) -> None:
    """Measures proposals of ten parameters after 1000 trials."""

    def ask(study) -> tuple:
        trial = study.ask()
        return trial, [trial.suggest_float(f"x{i}", -5, 5) for i in range(10)]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    for _ in range(TRIALS):
        trial, values = ask(study)
        study.tell(trial, sum((value - 1) ** 2 for value in values))
    times = []
    for _ in range(ASKS):
        began = time.perf_counter()
        ask(study)
        times.append(time.perf_counter() - began)
    report("optuna_tpe_ask_us_1000x10", statistics.median(times) * 1e6, "us")


def main() -> None:
    measure_pools()
    measure_optuna()


if __name__ == "__main__":
    main()
