#!/usr/bin/env python3
"""Writes down a study as Optuna 5.0.0 keeps it, in its journal and in its database, for optuna_study_test to read:

  pip install optuna==5.0.0
  tests/tune/record_optuna.py tests/tune/data
"""

import pathlib
import re
import sqlite3
import sys
import tempfile

import optuna
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState


def objective(trial):
    eta = trial.suggest_float("eta", 1e-4, 1e-1, log=True)
    depth = trial.suggest_int("depth", 3, 9)
    trial.suggest_float("subsample", 0.5, 1.0, step=0.25)
    trial.suggest_int("width", 4, 64, log=True)
    booster = trial.suggest_categorical("booster", ["gbtree", "dart", None])
    momentum = trial.suggest_float("momentum", 0.0, 1.0) if booster == "dart" else 0.0
    trial.suggest_categorical("fixed", [True])
    if trial.number == 3:
        raise ValueError("no such data")
    for step in range(4):
        trial.report(float("nan") if step == 1 and trial.number == 2 else depth / (step + 1), step)
        if step == 2 and trial.number in (4, 7):
            raise optuna.TrialPruned
    return depth * eta + momentum


def fill(storage):
    optuna.create_study(study_name="two", storage=storage, directions=["minimize", "maximize"])
    study = optuna.create_study(
        study_name="sizes",
        storage=storage,
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=5),
        pruner=optuna.pruners.NopPruner(),
    )
    study.optimize(objective, n_trials=12, catch=(ValueError,))
    study.set_user_attr("who", "a test, with {\"braces\": NaN}")
    study.enqueue_trial({"depth": 5})
    study.tell(study.ask().number, state=TrialState.FAIL)
    study.ask()
    study.enqueue_trial({"depth": 6})
    empty = optuna.create_study(study_name="empty", storage=storage)
    assert not empty.trials


def main(folder):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as temporary:
        journal = pathlib.Path(temporary) / "journal.log"
        fill(JournalStorage(JournalFileBackend(str(journal))))
        workers = r'"worker_id":"[^"]*",'
        (folder / "optuna_journal.log").write_text(re.sub(workers, "", journal.read_text()))
        database = pathlib.Path(temporary) / "study.db"
        fill(RDBStorage(f"sqlite:///{database}"))
        with sqlite3.connect(database) as connection:
            (folder / "optuna_study.sql").write_text("\n".join(connection.iterdump()) + "\n")


main(pathlib.Path(sys.argv[1]))
