"""Trains the model of pharos-bench-gpu with PyTorch: GPT-2 with 124 million parameters in bfloat16 on GPU 0.

gpu_peer.py [eager|compiled|eager_bf16|compiled_bf16…]: prints a line for each figure: its name, its value and its unit.
gpu_peer.py profile WAY: prints how long each kernel of a step takes, with a batch of 32.
"""

import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH, HEADS, BLOCKS = 50304, 1024, 768, 12, 12
WARM_STEPS, STEPS = 10, 30


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.all = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part.view(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.all(x).split(WIDTH, 2)]
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(x.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended = x + self.attend(self.norm1(x))
        return attended + self.down(F.gelu(self.up(self.norm2(attended)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        for each in self.parameters():
            if each.dim() == 2:
                nn.init.normal_(each, 0, 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


def groups_of(model: nn.Module) -> list[dict]:
    decays = [each for each in model.parameters() if each.dim() >= 2]
    others = [each for each in model.parameters() if each.dim() < 2]
    return [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]


def training(way: str, batch: int) -> Callable[[], torch.Tensor]:
    """Returns a function that makes one step and returns its loss."""
    torch.manual_seed(0)
    model = Gpt2().cuda()
    computes = torch.bfloat16 if way.endswith("_bf16") else torch.float32
    model.to(computes)  # a module in bfloat16 has no float copies beside it
    optimizer = torch.optim.AdamW(groups_of(model), lr=6e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(VOCABULARY, (batch, TOKENS + 1), device="cuda")
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=computes is torch.float32):
            return F.cross_entropy(model(x).flatten(0, 1), y)

    if way.startswith("compiled"):
        loss_of = torch.compile(loss_of)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(way: str, batch: int) -> None:
    step = training(way, batch)
    for _ in range(WARM_STEPS):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = step()
    torch.cuda.synchronize()
    rate = STEPS * batch * TOKENS / (time.perf_counter() - began)
    print(f"torch_{way}_gpt2_tokens_per_s_batch_{batch} {rate:.0f} /s", flush=True)
    print(f"torch_{way}_gpt2_loss_batch_{batch} {loss.item():.4f} nats", flush=True)


def profile(way: str) -> None:
    step = training(way, 32)
    for _ in range(WARM_STEPS):
        step()
    torch.cuda.synchronize()
    steps = 5
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels = sorted(recorded.key_averages(), key=lambda each: -each.self_device_time_total)
    for each in kernels:
        if each.self_device_time_total > 0:
            print(f"{each.self_device_time_total / steps:9.1f} us {each.count / steps:7.1f} launches  {each.key}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["profile"]:
        profile(sys.argv[2])
        sys.exit(0)
    for way in sys.argv[1:] or ["eager", "compiled", "eager_bf16", "compiled_bf16"]:
        for batch in (16, 32):
            measure(way, batch)
