"""Measures the figures of `pharos-bench core` with Ray's Python API. `benchmarks/compare` runs it.

usage: ray_core.py JSON_FILE TEMP_FOLDER STORE_BYTES
"""

import json
import statistics
import sys
import time

import numpy
import ray

JSON_FILE, TEMP_FOLDER, STORE_BYTES = sys.argv[1:]
figures = []


def report(name, value, unit):
    """Writes each figure at once, so that the figures are not lost if a later part never ends."""
    figures.append({"name": name, "value": value, "unit": unit})
    print(f"{name:<34} {value:14.3f} {unit}", flush=True)
    with open(JSON_FILE, "w") as file:
        json.dump({"figures": figures}, file)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_us(rounds, work):
    return statistics.median(seconds(work) for _ in range(rounds)) * 1e6


def median_rate(count, work):
    """Returns the median rate of three rounds, each with `count` pieces of work."""
    return statistics.median(count / seconds(work) for _ in range(3))


@ray.remote
def nop(x):
    return x


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, n):
        self.count += n
        return self.count

    def length(self, array):
        return len(array)


def measure_tasks():
    report("first_task", seconds(lambda: ray.get(nop.remote(1))), "s")
    for i in range(200):
        ray.get(nop.remote(i))
    report("task_sync_median", median_us(1000, lambda: ray.get(nop.remote(1))), "us")
    report("tasks_async", median_rate(5000, lambda: ray.get([nop.remote(i) for i in range(5000)])), "/s")


def measure_one_actor():
    times = []
    for _ in range(5):
        start = time.perf_counter()
        actor = Counter.remote()
        ray.get(actor.add.remote(1))
        times.append(time.perf_counter() - start)
        ray.kill(actor)
    report("actor_create_first_call", statistics.median(times), "s")

    actor = Counter.remote()
    for _ in range(200):
        ray.get(actor.add.remote(1))
    report("actor_call_sync_median", median_us(2000, lambda: ray.get(actor.add.remote(1))), "us")
    rate = median_rate(10000, lambda: ray.get([actor.add.remote(1) for _ in range(10000)]))
    report("actor_calls_async_1_1", rate, "/s")
    mebibyte = numpy.ones(1 << 20, dtype=numpy.uint8)
    for _ in range(10):
        ray.get(actor.length.remote(mebibyte))
    large = median_us(200, lambda: ray.get(actor.length.remote(mebibyte)))
    report("actor_call_1MiB_arg_median", large, "us")
    ray.kill(actor)


def measure_eight_actors():
    start = time.perf_counter()
    actors = [Counter.remote() for _ in range(8)]
    ray.get([actor.add.remote(1) for actor in actors])
    report("actors_created_8", time.perf_counter() - start, "s")
    rate = median_rate(12000, lambda: ray.get([actor.add.remote(1) for _ in range(1500) for actor in actors]))
    report("actor_calls_async_1_8", rate, "/s")
    for actor in actors:
        ray.kill(actor)


def measure_wait():
    def submit_and_wait():
        left = [nop.remote(i) for i in range(1000)]
        fetch = True  # only in the first call, because the node remembers it; Ray's own benchmark does the same
        while left:
            _, left = ray.wait(left, fetch_local=fetch)
            fetch = False

    report("wait_1k_refs", median_rate(1, submit_and_wait), "loops/s")


def measure_objects():
    puts, gets = [], []
    for _ in range(3):
        start = time.perf_counter()
        refs = [ray.put(i) for i in range(2000)]
        puts.append(2000 / (time.perf_counter() - start))
        start = time.perf_counter()
        for ref in refs:
            ray.get(ref)
        gets.append(2000 / (time.perf_counter() - start))
    report("puts_small", statistics.median(puts), "/s")
    report("gets_small", statistics.median(gets), "/s")

    array = numpy.ones(64 << 20, dtype=numpy.uint8)
    put_rates, get_times = [], []
    for _ in range(7):
        start = time.perf_counter()
        ref = ray.put(array)
        put_rates.append(64 / 1024 / (time.perf_counter() - start))
        get_times.append(seconds(lambda: ray.get(ref)) * 1e6)
        del ref
    report("put_64MiB", statistics.median(put_rates), "GiB/s")
    report("get_64MiB_us", statistics.median(get_times), "us")


def main():
    start = time.perf_counter()
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             object_store_memory=int(STORE_BYTES), _temp_dir=TEMP_FOLDER)
    report("init", time.perf_counter() - start, "s")
    for measure in (measure_tasks, measure_one_actor, measure_eight_actors, measure_wait, measure_objects):
        measure()
    report("shutdown", seconds(ray.shutdown), "s")


main()
