"""What the tensorboard package reads in a sweep's folder: scalars and what its HParams page shows, a line each."""

import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

PREFIX = "_hparams_/"


def hparams_of(accumulator, name):
    content = accumulator.SummaryMetadata(PREFIX + name).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def loaded(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def main():
    root = pathlib.Path(sys.argv[1])
    experiment = hparams_of(loaded(root), "experiment").experiment
    for parameter in experiment.hparam_infos:
        print("parameter", parameter.name, parameter.type)
    for metric in experiment.metric_infos:
        print("metric", metric.name.tag)
    for folder in sorted(root.glob("trial-*")):
        accumulator = loaded(folder)
        number = int(folder.name.removeprefix("trial-"))
        for tag in sorted(accumulator.Tags()["scalars"]):
            for scalar in accumulator.Scalars(tag):
                print("scalar", number, tag, scalar.step, f"{scalar.value:.9g}")
        start = hparams_of(accumulator, "session_start_info").session_start_info
        for name in sorted(start.hparams):
            value = start.hparams[name]
            kind = value.WhichOneof("kind")
            shown = getattr(value, kind)
            print("set", number, name, f"{shown:.17g}" if kind == "number_value" else shown)
        print("end", number, hparams_of(accumulator, "session_end_info").session_end_info.status)


if __name__ == "__main__":
    main()
