#!/usr/bin/env python3
"""Writes the images that images_test reads, and what Pillow makes of them as npy files. Needs Pillow 13,
numpy 2.2 and pypng 0.20240, because Pillow writes no interlaced PNG and none of 16 bits."""

import pathlib

import numpy as np
import png
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "files/images"
SIZE = (43, 37)  # width and height: neither is a whole number of a JPEG's blocks


def picture() -> Image.Image:
    """Smooth colours with a sharp edge and some noise, as photographs have."""
    x, y = np.meshgrid(np.linspace(0, 1, SIZE[0]), np.linspace(0, 1, SIZE[1]))
    noise = np.random.default_rng(1).normal(0, 0.05, (SIZE[1], SIZE[0], 3))
    colors = np.stack([x, y, 1 - x * y], axis=2) + noise
    colors[(x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.06] = (0.9, 0.2, 0.1)
    return Image.fromarray((colors.clip(0, 1) * 255).astype(np.uint8))


def keep(name: str, image: Image.Image) -> None:
    np.save(FOLDER / f"{name}.npy", np.asarray(image.convert("RGB")))


def write(name: str, image: Image.Image, **options) -> None:
    image.save(FOLDER / name, **options)
    with Image.open(FOLDER / name) as read:
        keep(name, read)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    image = picture()
    for name, subsampling in {"444": 0, "422": 1, "420": 2}.items():
        write(f"{name}.jpg", image, quality=85, subsampling=subsampling)
    write("progressive.jpg", image, quality=85, progressive=True)
    write("restarts.jpg", image, quality=85, restart_marker_blocks=2)
    write("gray.jpg", image.convert("L"))
    write("cmyk.jpg", image.convert("CMYK"))
    write("rgb.png", image)
    write("palette.png", image.quantize(16))
    write("gray.png", image.convert("L"))
    write("bits.png", image.convert("1"))
    write("alpha.png", Image.merge("RGBA", [*image.split(), image.convert("L")]))
    for name, options, factor in (("interlaced.png", {"interlace": True}, 1), ("16_bits.png", {"bitdepth": 16}, 256)):
        rows = np.asarray(image).astype(int).reshape(SIZE[1], -1) * factor
        with open(FOLDER / name, "wb") as file:
            png.Writer(*SIZE, greyscale=False, **options).write(file, rows)
        keep(name, image)

    with Image.open(FOLDER / "420.jpg") as read:
        read = read.convert("RGB")
    bilinear = Image.Resampling.BILINEAR
    keep("resized_16x20", read.resize((20, 16), bilinear))
    keep("resized_90x100", read.resize((100, 90), bilinear))
    keep("resized_80x10", read.resize((10, 80), bilinear))
    # torchvision's ResizeShorter(24) and CenterCrop(20).
    shorter = read.resize((24 * SIZE[0] // SIZE[1], 24), bilinear)
    left, top = round((shorter.width - 20) / 2), round((shorter.height - 20) / 2)
    keep("shorter_24_center_20", shorter.crop((left, top, left + 20, top + 20)))
    left, top = -((60 - SIZE[0]) // 2), -((50 - SIZE[1]) // 2)
    keep("center_50x60", read.crop((left, top, left + 60, top + 50)))


main()
