"""Measures PyTorch's collectives (Gloo), DDP and FSDP2 on this machine's CPUs, with 2 processes of one thread each (DDP
and FSDP2 also with 4), and PyTorch's DataLoader and torchvision, with one process.

torch_peer.py collective|ddp|sharding: prints a line for each figure: its name, its value and its unit.
torch_peer.py trainer PROGRAM: so, too. PROGRAM is pharos-bench-images, which reads the same images in turn with
torchvision.
"""

import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import PIL.Image
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.multiprocessing as mp
import torchvision
import torchvision.transforms.v2

BLOCK_STEPS = 5  # of one side before the turn of the other side
PAIRS = 20
PAIRS_OF_FOUR = 8  # with more ranks than CPUs a step takes twice as long
PHOTOGRAPHS = 1000
BUCKETS_MB = (1, 5, 25, 100)  # PyTorch's default is 25


def slowest(seconds: float) -> float:
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.item()


def time_of_all(work) -> float:
    """Returns the time from the start of the first rank to the end of the last one. All ranks read one clock."""
    dist.barrier()
    began = torch.tensor([time.perf_counter()], dtype=torch.float64)
    work()
    ended = torch.tensor([time.perf_counter()], dtype=torch.float64)
    dist.all_reduce(began, op=dist.ReduceOp.MIN)
    dist.all_reduce(ended, op=dist.ReduceOp.MAX)
    return (ended - began).item()


def measure_collective(say) -> None:
    for name, elements, rounds in (("4KiB", 1 << 10, 500), ("32MiB", 8 << 20, 31)):
        data = torch.zeros(elements)
        times = [time_of_all(lambda: dist.all_reduce(data)) for _ in range(rounds)]
        say(f"gloo_allreduce_us_{name}_2", statistics.median(times) * 1e6, "us")


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[
        torch.nn.TransformerEncoderLayer(320, 4, 4 * 320, dropout=0.0, batch_first=True, norm_first=True)
        for _ in range(8)
    ])


def with_ddp(whole: torch.nn.Module, bucket_mb: int) -> torch.nn.Module:
    return torch.nn.parallel.DistributedDataParallel(whole, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True,
                                                     static_graph=True)


def fully_sharded(whole: torch.nn.Module, reshard: bool, bf16: bool) -> torch.nn.Module:
    options = {"reshard_after_forward": reshard}
    if bf16:
        options["mp_policy"] = torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                                           reduce_dtype=torch.float32)
    for block in whole:
        torch.distributed.fsdp.fully_shard(block, **options)
    return torch.distributed.fsdp.fully_shard(whole, **options)


def adam(parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, 1e-4, fused=True)


class FloatsBeside:
    """Steps floats that are kept beside bfloat16 parameters, as the sharded sides do."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.floats = [each.detach().float().requires_grad_() for each in self.parameters]
        self.optimizer = adam(self.floats)

    def zero_grad(self) -> None:
        for each in self.parameters:
            each.grad = None

    def step(self) -> None:
        for each, kept in zip(self.parameters, self.floats):
            kept.grad = each.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.floats)


class Side:
    """A module with its optimizer: wrapped, or each rank's own. A wrapper of bfloat16 keeps floats itself."""

    def __init__(self, wrap=None, bf16: bool = False):
        self.meets = wrap is None
        if wrap is not None:
            self.module = wrap(module())
        elif bf16:
            self.module = module().bfloat16()
        else:
            self.module = module()
        keeps_floats = bf16 and wrap is None
        self.optimizer = (FloatsBeside if keeps_floats else adam)(self.module.parameters())

    def block(self, data: torch.Tensor) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(BLOCK_STEPS):
            self.optimizer.zero_grad()
            self.module(data).pow(2).mean().backward()
            self.optimizer.step()
            if self.meets:
                dist.barrier()
        return slowest(time.perf_counter() - began)


class Steps:
    """The medians of a wrapped module's step, of the step of each rank's own module, and of the ratio of a pair."""

    def __init__(self, wrap, bf16: bool):
        torch.manual_seed(dist.get_rank() + 1)
        data = torch.randn(4, 128, 320)
        if bf16:
            data = data.bfloat16()
        sides = [Side(wrap, bf16), Side(None, bf16)]
        for side in sides:
            side.block(data)
        found = []
        for pair in range(PAIRS if dist.get_world_size() == 2 else PAIRS_OF_FOUR):
            order = sides if pair % 2 == 0 else sides[::-1]
            times = {side: side.block(data) for side in order}
            found.append([times[side] / BLOCK_STEPS for side in sides])
        self.step = statistics.median(step for step, _ in found)
        self.local = statistics.median(local for _, local in found)
        self.over = statistics.median(step / local for step, local in found)


def measure_steps(say, name: str, wraps: dict, bf16: bool = False) -> None:
    """Measures each way to wrap the module. The way whose ratio is the smallest counts."""
    if dist.get_world_size() != 2:
        name += f"_{dist.get_world_size()}_ranks"
    all_steps = {}
    for way, wrap in wraps.items():
        all_steps[way] = Steps(wrap, bf16)
        say(f"torch_{name}_{way}_step_over_local", all_steps[way].over, "times")
    best = min(all_steps.values(), key=lambda steps: steps.over)
    say(f"torch_{name}_step_ms", best.step * 1e3, "ms")
    say(f"torch_{name}_local_step_ms", best.local * 1e3, "ms")
    say(f"torch_{name}_step_over_local", best.over, "times")


def measure_ddp(say) -> None:
    """Measures DDP with several sizes of its buckets."""
    measure_steps(say, "ddp", {f"{size}MB": (lambda whole, size=size: with_ddp(whole, size)) for size in BUCKETS_MB})


def measure_sharding(say) -> None:
    """Measures FSDP2 in two ways. A block is gathered again in backward, as Pharos does it, or a block stays gathered,
    which takes more memory."""
    for name, bf16 in (("fsdp2", False), ("fsdp2_bf16", True)):
        ways = {"again": lambda whole: fully_sharded(whole, True, bf16),
                "once": lambda whole: fully_sharded(whole, False, bf16)}
        if dist.get_world_size() == 2 or not bf16:
            measure_steps(say, name, ways, bf16)


class Images(torch.utils.data.Dataset):
    """Bytes that become floats. Returns one sample, or a whole batch if the sampler gives a list of numbers."""

    def __init__(self):
        self.images = torch.randint(256, (240_000, 28, 28), dtype=torch.uint8)
        self.labels = torch.randint(10, (240_000,), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number):
        return self.images[number].unsqueeze(-3).float() * (1 / 255), self.labels[number].long()


class Lists(torch.utils.data.Dataset):
    """Lists of 16 to 512 floats. Returns one list, or a padded batch if the sampler gives a list of numbers."""

    def __init__(self):
        lengths = [16 + number * 7919 % 497 for number in range(60_000)]
        self.lists = torch.rand(sum(lengths)).split(lengths)
        self.labels = torch.randint(10, (60_000,))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number):
        if isinstance(number, list):
            return collate([(self.lists[each], self.labels[each]) for each in number])
        return self.lists[number], self.labels[number]


def collate(samples):
    """Returns lists with zeros behind the shorter ones, the lengths, and the labels."""
    lists, labels = zip(*samples)
    padded = torch.nn.utils.rnn.pad_sequence(lists, batch_first=True)
    return padded, torch.tensor([len(each) for each in lists]), torch.stack(labels)


def rate_of_one_pass(images: torch.utils.data.Dataset, workers: int, **options) -> float:
    """Returns the samples per second of one pass over the data by a new loader, from the first batch on, so that
    neither the start of the workers nor the beginning of a further pass counts."""
    ahead = {"prefetch_factor": 4} if workers else {}
    batches = iter(torch.utils.data.DataLoader(images, num_workers=workers, **options, **ahead))
    next(batches)
    began, samples = time.perf_counter(), 0
    for rows, *_ in batches:
        samples += len(rows)
    return samples / (time.perf_counter() - began)


def measure_loader() -> None:
    torch.set_num_threads(1)
    images, lists = Images(), Lists()

    def rate(samples, **options) -> float:
        """Returns the median rate of three passes, with the number of workers that is fastest."""
        return max(statistics.median(rate_of_one_pass(samples, workers, **options) for _ in range(3))
                   for workers in (0, 1, 2))

    def rate_by_batches(samples) -> float:
        sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(samples), 64, drop_last=False)
        return rate(samples, sampler=sampler, batch_size=None)

    print("torch_loader_samples_per_s", rate(images, batch_size=64, shuffle=True), "/s", flush=True)
    print("torch_loader_by_batches_samples_per_s", rate_by_batches(images), "/s", flush=True)
    by_samples = rate(lists, batch_size=64, shuffle=True, collate_fn=collate)
    print("torch_collate_samples_per_s", max(by_samples, rate_by_batches(lists)), "/s", flush=True)


def write_photographs(folder: pathlib.Path) -> None:
    """Writes images that are as large, as smooth and as noisy as those of ImageNet."""
    random = numpy.random.default_rng(1)
    for number in range(PHOTOGRAPHS):
        size = (500, 375) if number % 3 else (375, 500)
        image = numpy.zeros((size[1], size[0], 3))
        for cells, height in ((4, 90), (16, 40), (64, 20)):
            noise = random.integers(0, 256, (cells, cells, 3), dtype=numpy.uint8)
            image += (numpy.asarray(PIL.Image.fromarray(noise).resize(size, PIL.Image.Resampling.BICUBIC)) / 128.0 - 1) * height
        image += 128 + random.normal(0, 5, image.shape)
        its = folder / f"class_{number % 10}"
        its.mkdir(exist_ok=True)
        PIL.Image.fromarray(image.clip(0, 255).astype(numpy.uint8)).save(its / f"{number:05}.jpg", quality=92)


def open_as_tensor(path: str) -> torch.Tensor:
    return torchvision.io.decode_image(path, torchvision.io.ImageReadMode.RGB)


def measure_images(program: str) -> None:
    """Measures random crops of 224 pixels, flipped and normalized, as trainings on ImageNet have them. torchvision may do
    it with Pillow or with its own decoder and its transforms of tensors, by 0, 1 or 2 workers: the fastest counts."""
    v1, v2 = torchvision.transforms, torchvision.transforms.v2
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    by_pillow = v1.Compose([v1.RandomResizedCrop(224), v1.RandomHorizontalFlip(), v1.ToTensor(),
                            v1.Normalize(mean, deviation)])
    by_tensors = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                             v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, deviation)])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "images"
        folder.mkdir()
        write_photographs(folder)
        ways = {"pillow": torchvision.datasets.ImageFolder(folder, by_pillow),
                "tensors": torchvision.datasets.ImageFolder(folder, by_tensors, loader=open_as_tensor)}

        def rate_of_torchvision(way: str, workers: int) -> float:
            return rate_of_one_pass(ways[way], workers, batch_size=64, shuffle=True)

        def rate_of_pharos(threads: int) -> float:
            return float(subprocess.run([program, "rate", folder, str(threads)], check=True, capture_output=True).stdout)

        workers = max(itertools.product(ways, (0, 1, 2)), key=lambda each: rate_of_torchvision(*each))
        threads = max((1, 2), key=rate_of_pharos)
        rounds = [(rate_of_pharos(threads), rate_of_torchvision(*workers)) for _ in range(5)]
        print("images_per_s", statistics.median(ours for ours, _ in rounds), "/s", flush=True)
        print("torch_images_per_s", statistics.median(its for _, its in rounds), "/s", flush=True)
        print("images_over_torchvision", statistics.median(ours / its for ours, its in rounds), "times", flush=True)

        file = pathlib.Path(temporary) / "pixels.safetensors"
        subprocess.run([program, "pixels", folder, file], check=True)
        content = file.read_bytes()
        ours = numpy.frombuffer(content, numpy.uint8, offset=8 + int.from_bytes(content[:8], "little"))
        middle = v1.Compose([v1.Resize(256), v1.CenterCrop(224), v1.PILToTensor()])
        its = torch.stack([image for image, _ in torchvision.datasets.ImageFolder(folder, middle)]).numpy()
        difference = numpy.abs(ours.reshape(its.shape).astype(int) - its).max()
        print("images_pixels_from_torchvision", difference, "of_255", flush=True)


def run(rank: int, place: str, what: str, ranks: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=ranks)

    def say(name: str, value: float, unit: str) -> None:
        if rank == 0:
            print(name, value, unit, flush=True)

    {"collective": measure_collective, "ddp": measure_ddp, "sharding": measure_sharding}[what](say)
    dist.barrier()
    # Gloo's threads end some processes by abort() when its objects are destroyed while another rank is still leaving.
    os._exit(0)


def main() -> None:
    if sys.argv[1:2] == ["trainer"] and len(sys.argv) == 3:
        measure_loader()
        return measure_images(sys.argv[2])
    if sys.argv[1:] not in (["collective"], ["ddp"], ["sharding"]):
        sys.exit(__doc__)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for ranks in (2,) if sys.argv[1] == "collective" else (2, 4):
        place = f"/tmp/torch-peer-{os.getpid()}-{ranks}"
        try:
            mp.spawn(run, args=(place, sys.argv[1], ranks), nprocs=ranks)
        finally:
            if os.path.exists(place):
                os.unlink(place)


if __name__ == "__main__":
    main()
