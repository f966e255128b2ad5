#!/usr/bin/env python3
"""Writes resnet_losses.json, which resnet_test reads: what PyTorch's training of ResNet18 comes to.

Needs torch 2.11 and numpy 2.2; torchvision's definition is repeated here. Parameters and images are values(), which the test makes in the same way, to the bit."""

import json
import math
import pathlib
import sys

import torch
from torch import nn

PRIME = 2**31 - 1
CLASSES = 10
BATCH = 6
BATCHES = 4


class BasicBlock(nn.Module):
    """Two convolutions, and what goes past them."""

    def __init__(self, before: int, channels: int, stride: int, downsample: nn.Module | None):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + past)


def layer(before: int, channels: int, stride: int) -> nn.Module:
    downsample = None
    if stride != 1:
        downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
    return nn.Sequential(BasicBlock(before, channels, stride, downsample), BasicBlock(channels, channels, 1, None))


class ResNet18(nn.Module):
    """Named, and made in that order, as torchvision's."""

    def __init__(self, channels: int, classes: int, small_images: bool):
        super().__init__()
        stem = {"kernel_size": 3, "padding": 1} if small_images else {"kernel_size": 7, "stride": 2, "padding": 3}
        self.conv1 = nn.Conv2d(channels, 64, bias=False, **stem)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
        self.layer1 = layer(64, 64, 1)
        self.layer2 = layer(64, 128, 2)
        self.layer3 = layer(128, 256, 2)
        self.layer4 = layer(256, 512, 2)
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def values(shape: list[int], number: int) -> torch.Tensor:
    """From -0.5 to 0.5, other ones for each number."""
    x = (torch.arange(math.prod(shape)) * 48271 + number * 69621) % PRIME
    for _ in range(3):
        x = (x * x + 1) % PRIME
    return (x.double() / PRIME - 0.5).reshape(shape)


def set_parameters(model: nn.Module) -> None:
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            x = values(list(parameter.shape), number)
            if parameter.dim() > 1:
                parameter.copy_(x * math.sqrt(24 * parameter.shape[0] / parameter.numel()))
            else:
                parameter.copy_(x / 5 if name.endswith("bias") else 1 + x / 5)


def learned(model: nn.Module, steps: int) -> dict[str, list[float]]:
    """The losses, and what the model says of the first images then, evaluating them: by its running means."""
    set_parameters(model.double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=5e-4)
    found = []
    for step in range(steps):
        images = values([BATCH, 1, 28, 28], 1000 + step % BATCHES)
        labels = (torch.arange(BATCH) + 3 * (step % BATCHES)) % CLASSES
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    model.eval()
    with torch.no_grad():
        return {"losses": found, "evaluated": model(values([BATCH, 1, 28, 28], 1000)).flatten().tolist()}


def tensors(model: nn.Module) -> list:
    return [[name, list(tensor.shape)] for name, tensor in model.state_dict().items()]


def first_numbers(channels: int, classes: int, small_images: bool) -> dict[str, list[float]]:
    """The first and the last number of each parameter of a new model, with seed 1."""
    torch.manual_seed(1)
    model = ResNet18(channels, classes, small_images)
    return {name: parameter.flatten()[[0, -1]].tolist() for name, parameter in model.named_parameters()}


def main() -> None:
    torch.set_num_threads(1)
    found = {}
    for name, small_images, steps in (("standard", False, 50), ("small_images", True, 2)):
        found[name] = {"tensors": tensors(ResNet18(3, 1000, small_images)),
                       "first_numbers": first_numbers(3, 1000, small_images),
                       **learned(ResNet18(1, CLASSES, small_images), steps)}
    (pathlib.Path(__file__).parent / "resnet_losses.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    sys.exit(main())
