"""Measures PyTorch's collectives (Gloo), DDP and FSDP2 on this machine's CPUs, with 2 processes of one thread each, and
PyTorch's DataLoader, with one process.

torch_peer.py collective|ddp|sharding|trainer: prints a line for each figure: its name, its value and its unit.
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.multiprocessing as mp

RANKS = 2
BLOCK_STEPS = 5  # of one side before the turn of the other side
PAIRS = 20


def slowest(seconds: float) -> float:
    time_of_all = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(time_of_all, op=dist.ReduceOp.MAX)
    return time_of_all.item()


def measure_collective(say) -> None:
    for name, elements, rounds in (("4KiB", 1 << 10, 300), ("32MiB", 8 << 20, 31)):
        data = torch.zeros(elements)
        times = []
        for _ in range(rounds):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(data)
            times.append(slowest(time.perf_counter() - began))
        say(f"gloo_allreduce_us_{name}_2", statistics.median(times) * 1e6, "us")


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[
        torch.nn.TransformerEncoderLayer(320, 4, 4 * 320, dropout=0.0, batch_first=True, norm_first=True)
        for _ in range(8)
    ])


def with_ddp(whole: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.parallel.DistributedDataParallel(whole, gradient_as_bucket_view=True, static_graph=True)


def fully_sharded(whole: torch.nn.Module, reshard: bool) -> torch.nn.Module:
    for block in whole:
        torch.distributed.fsdp.fully_shard(block, reshard_after_forward=reshard)
    return torch.distributed.fsdp.fully_shard(whole, reshard_after_forward=reshard)


class Side:
    def __init__(self, wrap=None):
        self.module = module() if wrap is None else wrap(module())
        self.optimizer = torch.optim.AdamW(self.module.parameters(), 1e-4, fused=True)
        self.meets = wrap is None

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


def measure_steps(say, name: str, wrap) -> float:
    torch.manual_seed(dist.get_rank() + 1)
    data = torch.randn(4, 128, 320)
    sides = [Side(wrap), Side()]
    for side in sides:
        side.block(data)
    found = []
    for pair in range(PAIRS):
        order = sides if pair % 2 == 0 else sides[::-1]
        times = {side: side.block(data) for side in order}
        found.append([times[side] / BLOCK_STEPS for side in sides])
    say(f"torch_{name}_step_ms", statistics.median(step for step, _ in found) * 1e3, "ms")
    say("torch_local_step_ms", statistics.median(local for _, local in found) * 1e3, "ms")
    over = statistics.median(step / local for step, local in found)
    say(f"torch_{name}_step_over_local", over, "times")
    return over


def measure_sharding(say) -> None:
    """Measures FSDP2 in two ways. A block is gathered again in backward, as Pharos does it, or a block stays gathered,
    which takes more memory. The faster way counts."""
    again = measure_steps(say, "fsdp2_again", lambda whole: fully_sharded(whole, True))
    once = measure_steps(say, "fsdp2_once", lambda whole: fully_sharded(whole, False))
    say("torch_fsdp2_step_over_local", min(again, once), "times")


class Images(torch.utils.data.Dataset):
    """Bytes that become floats. Returns one sample, or a whole batch if the sampler gives a list of numbers."""

    def __init__(self):
        self.images = torch.randint(256, (60_000, 28, 28), dtype=torch.uint8)
        self.labels = torch.randint(10, (60_000,), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number):
        return self.images[number].unsqueeze(-3).float() * (1 / 255), self.labels[number].long()


def measure_loader() -> None:
    torch.set_num_threads(1)
    images = Images()
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(images), 64, drop_last=False)

    def rate(**options) -> float:
        """Returns the median rate of the epochs, with the number of workers that is fastest."""
        best = 0.0
        for workers in (0, 1, 2):
            ahead = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
            loader = torch.utils.data.DataLoader(images, num_workers=workers, **options, **ahead)
            rates = []
            for _ in range(4):
                began, total = time.perf_counter(), 0
                for pixels, _ in loader:
                    total += len(pixels)
                rates.append(total / (time.perf_counter() - began))
            best = max(best, statistics.median(rates[1:]))
        return best

    print("torch_loader_samples_per_s", rate(batch_size=64, shuffle=True), "/s", flush=True)
    print("torch_loader_by_batches_samples_per_s", rate(sampler=batches, batch_size=None), "/s", flush=True)


def run(rank: int, place: str, what: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)

    def say(name: str, value: float, unit: str) -> None:
        if rank == 0:
            print(name, value, unit, flush=True)

    {
        "collective": measure_collective,
        "ddp": lambda say: measure_steps(say, "ddp", with_ddp),
        "sharding": measure_sharding,
    }[what](say)
    dist.destroy_process_group()


def main() -> None:
    if sys.argv[1:] == ["trainer"]:
        return measure_loader()
    if sys.argv[1:] not in (["collective"], ["ddp"], ["sharding"]):
        sys.exit(__doc__)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    place = f"/tmp/torch-peer-{os.getpid()}"
    try:
        mp.spawn(run, args=(place, sys.argv[1]), nprocs=RANKS)
    finally:
        if os.path.exists(place):
            os.unlink(place)


if __name__ == "__main__":
    main()
