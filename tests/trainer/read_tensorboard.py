"""What the tensorboard package reads in a training's folder: a line for each scalar."""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
accumulator.Reload()
for tag in sorted(accumulator.Tags()["scalars"]):
    for scalar in accumulator.Scalars(tag):
        print(tag, scalar.step, f"{scalar.value:.9g}")
