"""Procedural backdrops in a flat, painterly style: the nine places behind the birds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from choqolate.errors import ChoqolateError

Colour = tuple[int, int, int]
_NEAREST = Image.Resampling.NEAREST
# Times of day, the same for all places: sky above, sky at the horizon, gain of red, green and blue, saturation.
_LIGHTS: dict[str, tuple[Colour, Colour, tuple[float, float, float], float]] = {
    "bright": ((108, 172, 226), (208, 231, 242), (1.0, 1.0, 1.0), 1.05),
    "evening": ((150, 158, 204), (255, 208, 160), (1.06, 0.96, 0.88), 1.0),
    "overcast": ((164, 174, 186), (214, 218, 220), (0.96, 0.97, 0.99), 0.7),
}
_WHITE, _LIT, _DARK, _BROWN = (246, 247, 243), (240, 242, 186), (40, 66, 52), (116, 88, 64)
_PETALS = ((246, 244, 236), (244, 208, 84), (218, 92, 84), (168, 118, 196), (240, 160, 186))
_LOBES = np.array(((-0.55, 0.15, 0.5), (0.55, 0.2, 0.48), (-0.3, -0.35, 0.5), (0.32, -0.32, 0.5), (0.0, 0.1, 0.65)))
_BLOCK = np.array(((-1.0, -0.05), (-0.85, 0.5), (-0.4, 0.92), (0.2, 1.0), (0.65, 0.72), (0.95, 0.35), (1.0, -0.05)))
_TIERS = np.array(((0, 1), (0.42, 0.72), (0.2, 0.76), (0.72, 0.42), (0.36, 0.47), (1, 0.1), (0.5, 0.16), (0, 0.06)))
_SHELL = np.array(((0.0, 0.4), (-0.95, -0.1), (-0.75, -0.6), (-0.3, -0.9), (0.15, -0.9), (0.6, -0.65), (0.85, -0.15)))
_STAR = np.array([(r * np.cos(k * np.pi / 5), r * np.sin(k * np.pi / 5)) for k, r in enumerate((1.3, 0.5) * 5)])
_FINDS = ((_STAR, (216, 132, 98)), (_SHELL, (248, 226, 214)), (_SHELL, (240, 236, 226)))
_STONE, _SAND = ((142, 142, 146), (150, 144, 138), (130, 136, 146)), ((228, 206, 160), (232, 208, 178), (216, 204, 178))
_WATER, _GRASS = ((62, 120, 172), (56, 134, 156), (86, 122, 152)), ((112, 156, 78), (140, 158, 84), (94, 146, 94))
_X, _T = np.linspace(-0.02, 1.02, 41), np.linspace(0, 1, 21)


def draw_backdrop(place: str, light: str, size: int, rng: np.random.Generator) -> Image.Image:
    """A place such as "sea" or "forest" by a light such as "evening", as an RGB image of ``size x size`` pixels."""
    if place not in _PLACES:
        raise ChoqolateError(f"expected a place out of {', '.join(_PLACES)}, got {place!r}")
    canvas = _Canvas(size, light, rng)
    _PLACES[place](canvas)
    return canvas.finish(haze=0.14 if place in ("forest", "bamboo") else 0.0)


def _mix(a: Colour, b: Colour, t: float) -> Colour:
    return round(a[0] + (b[0] - a[0]) * t), round(a[1] + (b[1] - a[1]) * t), round(a[2] + (b[2] - a[2]) * t)


def _flat(x: np.ndarray, y: np.ndarray) -> list[float]:
    return np.stack([x, y], axis=1).ravel().tolist()


class _Canvas:
    """A square to draw on in unit coordinates, x to the right and y down, at one time of day."""

    def __init__(self, size: int, light: str, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        top, low, self.gain, self.saturation = _LIGHTS[light]
        self.top, self.low = self.vary((top,)), self.vary((low,))

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.rng.random()

    def count(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def rows(self, number: int, columns: int) -> list[list[float]]:
        return self.rng.random((number, columns)).tolist()

    def vary(self, colours: Sequence[Colour]) -> Colour:
        r, g, b = colours[int(self.rng.random() * len(colours))]
        dr, dg, db = (20 * self.rng.random() + 12 * self.rng.random(3) - 16).tolist()
        return min(255, round(r + dr)), min(255, round(g + dg)), min(255, round(b + db))

    def tones(self, colours: Sequence[Colour]) -> tuple[Colour, Colour]:
        """Return one of the colours as it looks far away and close by."""
        near = self.vary(colours)
        return _mix(_mix(near, (206, 226, 226), 0.4), self.low, 0.12), near

    def sky(self, horizon: float, *below: tuple[float, Colour]) -> None:
        """Fill the square with sky and a few clouds, and a gradient through the stops (y, colour) below the horizon."""
        stops = ((0.0, self.top), (horizon, self.low), *below)
        at, y = (np.arange(self.size) + 0.5) / self.size, [stop[0] + 1e-6 * i for i, stop in enumerate(stops)]
        column = np.stack([np.interp(at, y, [stop[1][k] for stop in stops]) for k in range(3)], axis=1)
        self.image = Image.fromarray(column.astype(np.uint8)[:, None]).resize((self.size, self.size), _NEAREST)
        self.draw = ImageDraw.Draw(self.image)
        for u, v, w in self.rows(self.count(0, 3) if horizon else 0, 3):
            y0, r = 0.04 + max(0.02, horizon - 0.14) * v, 0.07 + 0.08 * w
            for dx, dy, scale in ((-0.6, 0.012, 0.7), (0.0, -0.006, 0.8), (0.65, 0.012, 0.65)):
                self.ellipse(u + dx * r, y0 + dy, r * scale, r * scale * 0.26, _mix(self.low, _WHITE, 0.55))

    def polygon(self, points: Sequence[float], colour: Colour) -> None:
        self.draw.polygon([v * self.size for v in points], fill=colour)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        self.draw.ellipse([v * self.size for v in (x - rx, y - ry, x + rx, y + ry)], fill=colour)

    def line(self, points: Sequence[float], width: float, colour: Colour) -> None:
        self.draw.line([v * self.size for v in points], fill=colour, width=max(1, round(width * self.size)))

    def shape(self, form: np.ndarray, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        self.polygon((form * (rx, ry) + (x, y)).ravel().tolist(), colour)

    def under(self, y: np.ndarray, bottom: float, colour: Colour) -> None:
        self.polygon([*_flat(_X, y), 1.02, bottom, -0.02, bottom], colour)

    def ridge(self, y: float, height: float, waves: float, colour: Colour, bottom: float) -> np.ndarray:
        """Draw about `waves` hills that rise from y by up to `height`, and return their outline."""
        a, b, c = (6.28 * self.rng.random(3)).tolist()
        rise = np.sin(6.28 * waves * _X + a) * 0.3 + np.sin(13.3 * waves * _X + b) * 0.14 + np.sin(60 * _X + c) * 0.06
        self.under(y - height * (0.5 + rise), bottom, colour)
        return y - height * (0.5 + rise)

    def swell(self, y: float, near: float, body: Colour, foam: Colour, bottom: float) -> None:
        """Draw a row of waves with white crests; near is 0 at the horizon and 1 close by."""
        a, b = (6.28 * self.rng.random(2)).tolist()
        crest = (1 - np.abs(np.sin(np.pi / (0.08 + 0.26 * near) * _X + a))) * (0.8 + 0.2 * np.sin(9 * _X + b))
        edge = y - (0.008 + 0.06 * near) * crest
        self.under(edge, y + 0.01, foam)
        self.under(edge + (0.008 + 0.022 * near) * (crest * 1.6 - 0.5).clip(-0.05), bottom, body)

    def blades(self, number: int, tall: float, colour: Colour) -> None:
        shades = (_mix(colour, _DARK, 0.3), _mix(colour, self.low, 0.2))
        for i, (x, v, w) in enumerate(self.rows(number, 3)):
            self.polygon((x - 0.01, 1, x + (w - 0.5) * tall / 2, 1 - tall * (1 + v) / 2, x + 0.01, 1), shades[i % 2])

    def bush(self, x: float, y: float, r: float, colour: Colour) -> None:
        lobes = (r * (_LOBES + 0.2 * self.rng.random((5, 3)) - 0.1)).tolist()
        shades = ((_mix(colour, _DARK, 0.4), 0.1, 1.0), (colour, -0.04, 0.9), (_mix(colour, _LIT, 0.25), -0.22, 0.52))
        for shade, shift, scale in shades:
            for lx, ly, lr in lobes:
                self.ellipse(x + lx * scale + shift * r, y + ly * scale + shift * r, lr * scale, lr * scale, shade)

    def boulder(self, x: float, y: float, w: float, tall: float, colour: Colour) -> None:
        points = ((_BLOCK + 0.18 * self.rng.random((7, 2)) - 0.09) * (w, -tall) + (x, y)).ravel().tolist()
        middle = (x + 0.2 * w, y - 0.38 * tall)
        self.polygon(points, colour)
        self.polygon((*points[8:], *middle), _mix(colour, (50, 54, 66), 0.36))
        self.polygon((*points[2:10], *middle), _mix(colour, (238, 234, 222), 0.36))

    def finish(self, haze: float) -> Image.Image:
        """Add a mottle, haze and the time of day: all but the mottle are one linear map of the colours."""
        mottle = Image.fromarray(self.rng.integers(80, 256, (64, 64), dtype=np.uint8)).resize(self.image.size, _NEAREST)
        image = Image.blend(self.image, Image.merge("RGB", (mottle, mottle, mottle)), 0.06)
        gain = np.array(self.gain) * self.between(0.9, 1.1) * (0.97 + 0.06 * self.rng.random(3))
        colours = gain[:, None] * (self.saturation * np.eye(3) + (1 - self.saturation) * np.array((0.3, 0.59, 0.11)))
        veil = haze * colours @ np.array(_mix(self.low, self.top, 0.3))
        return image.convert("RGB", tuple(np.column_stack([(1 - haze) * colours, veil]).ravel().tolist()))


def _sea(c: _Canvas) -> None:
    h, (far, deep), rows = c.between(0.18, 0.46), c.tones(_WATER), c.count(7, 9)
    c.sky(h, (h, far), (1.0, deep))
    for k, near in enumerate(((np.arange(rows) + 0.5) / rows).tolist()):
        y, body = h + (1 - h) * near**1.35, _mix(_mix(far, deep, near), (24, 64, 100) if k % 2 else far, 0.15)
        c.swell(y, near, body, _mix(far, _WHITE, 0.8), min(1.0, y + 0.22))


def _lake(c: _Canvas) -> None:
    h, (far, deep), (_, green), side = c.between(0.34, 0.52), c.tones(_WATER), c.tones(_GRASS), c.count(0, 1)
    c.sky(h, (h, _mix(far, c.low, 0.4)), (1.0, deep))
    for height, waves, colour in ((0.16, 1.3, _mix(green, c.top, 0.6)), (0.05, 3.4, _mix(green, _DARK, 0.3))):
        outline = c.ridge(h, height * c.between(1, 1.8), waves, colour, h)
        c.under(1.85 * h - 0.85 * outline, h, _mix(_mix(colour, far, 0.35), c.low, 0.15))
    for x, y, w in [[0.5, -0.05, 5.0], *c.rows(12, 3)]:
        c.ellipse(x, h + 0.03 + (0.97 - h) * y, 0.04 + 0.1 * w, 0.004, _mix(_mix(far, c.low, 0.3), _WHITE, 0.35))
    for x, v in c.rows(c.count(5, 8), 2):
        y, r = 0.74 + 0.22 * v, 0.05 + 0.04 * v
        c.ellipse(x, y, r, r * 0.36, _mix(green, _LIT, 0.12))
        c.polygon((x, y, x + r, y - 0.36 * r, x + r * 1.1, y), deep)
        c.ellipse(x - 0.2 * r, y - 0.014, 0.022, 0.017, (240, 190, 206) if v < 0.4 else green)
    for u, v, w in c.rows(c.count(7, 11), 3):
        x, top = 0.82 * side + 0.18 * u, 0.4 + 0.3 * v
        c.line((x - 0.05 * (w - 0.5), 1.0, x, top), 0.009, _mix(green, _DARK, 0.4 * w))
        c.ellipse(x, top + 0.02, 0.013, 0.045, _BROWN)


def _river(c: _Canvas) -> None:
    h, (far, deep), (pale, near) = c.between(0.2, 0.4), c.tones(_WATER), c.tones(_GRASS)
    c.sky(h, (h, pale), (1.0, near))
    c.ridge(h + 0.01, c.between(0.06, 0.14), 1.6, _mix(near, c.top, 0.5), h + 0.02)
    bend = c.between(0.13, 0.19) * np.sin(c.between(6, 8) * _T**0.75 + 3.14 * c.count(0, 1)) * (0.35 + 0.65 * _T)
    x, y = c.between(0.35, 0.65) + c.between(-0.2, 0.2) * _T + bend, h + 0.015 + (1.02 - h) * _T**1.3
    half, stream, leaf = 0.018 + c.between(0.18, 0.25) * _T**1.2, _mix(far, deep, 0.55), _mix(near, _DARK, 0.3)
    for widen, drop, colour in ((1.18, 0.0, (186, 160, 116)), (1.08, 0.008, (128, 102, 76)), (1.0, 0.018, stream)):
        c.polygon(_flat(np.r_[x - half * widen, (x + half * widen)[::-1]], np.r_[y, y[::-1]] + drop), colour)
    for u, v in c.rows(14, 2):
        run = slice(2 + int(u * 15), 6 + int(u * 15))
        c.line(_flat((x + half * (1.6 * v - 0.8))[run], y[run]), 0.005 + 0.007 * u, _mix(stream, _WHITE, 0.5))
    for u, v, w in sorted(c.rows(c.count(5, 8), 3)):
        i, side = 3 + int(u * 14), 1 if w < 0.5 else -1
        c.bush(float(x[i] + side * (1.25 * half[i] + 0.05 + 0.25 * v)), float(y[i]), 0.022 + 0.05 * u, leaf)


def _sand(c: _Canvas) -> None:
    h, (far, deep), sand = c.between(0.16, 0.32), c.tones(_WATER), c.vary(_SAND)
    shore, a, tilt = h + c.between(0.08, 0.13), c.between(0, 6.28), c.between(-0.06, 0.06)
    c.sky(h, (h, _mix(far, deep, 0.6)), (shore, far), (shore, sand), (1.0, _mix(sand, _BROWN, 0.08)))
    slope = shore + tilt * (_X - 0.5) + 0.012 * np.sin(11 * _X + a) + 0.006 * np.sin(29 * _X + 2 * a)
    for drop, colour in ((0.065, _mix(sand, _BROWN, 0.22)), (0.024, _WHITE), (0.0, _mix(far, deep, 0.25))):
        c.under(slope + drop, shore - 0.03, colour)
    for k, (u, v) in enumerate(c.rows(c.count(5, 7), 2)):
        x = 0.7 * u - 0.2 + (0.4 + 0.5 * v) * _T
        y = shore + 0.13 + 0.12 * k + 0.012 * np.sin(22 * x + 9 * u)
        c.line(_flat(x, y), 0.01, _mix(sand, _BROWN, 0.2))
        c.line(_flat(x, y + 0.011), 0.009, _mix(sand, _WHITE, 0.5))
    for k, (u, v) in enumerate(c.rows(c.count(6, 9), 2)):
        y0, r, (form, colour) = 0.62 + 0.34 * v, 0.024 + 0.024 * v, _FINDS[k % 3]
        c.ellipse(u + 0.006, y0 + 0.01, r, r * 0.4, _mix(sand, _BROWN, 0.4))
        c.shape(form, u, y0, r if k % 2 else -r, 0.9 * r, colour)


def _rocks(c: _Canvas) -> None:
    h, (far, deep), stone, side = c.between(0.3, 0.46), c.tones(_WATER), c.vary(_STONE), 2 * c.count(0, 1) - 1
    c.sky(h, (h, far), (1.0, deep))
    for k in range(3):
        c.swell(h + 0.06 + 0.12 * k, 0.15 * k + 0.15, _mix(far, deep, 0.3 * k + 0.1), _mix(far, _WHITE, 0.6), 1.0)
    for k, (u, v) in enumerate(c.rows(3, 2)):
        w, tall = 0.24 - 0.07 * k + 0.04 * v, (0.3 + 0.24 * k) * h + 0.03 + 0.05 * u
        c.boulder(0.5 + side * (0.32 + 0.1 * k), h + 0.06, w, tall, _mix(stone, c.low, 0.25))
    for k, (u, v) in enumerate(c.rows(c.count(7, 9), 2)):
        x, y, w = 0.5 + (side if k % 2 else -side) * (0.2 + 0.34 * u), 0.66 + 0.046 * k, 0.1 + 0.018 * k
        c.ellipse(x, y, w * 1.25, 0.024, _mix(far, _WHITE, 0.75))
        c.boulder(x, y, w, w * (0.9 + 0.5 * v), _mix(stone, (90, 90, 100), 0.25 * u))
    c.boulder(c.between(0.35, 0.65), 1.03, 0.4, c.between(0.16, 0.24), _mix(stone, (80, 80, 92), 0.2))


def _forest(c: _Canvas) -> None:
    green, floor = c.vary(((64, 104, 74), (80, 106, 68), (58, 98, 88))), c.vary(((104, 98, 70),))
    hazy, bark = _mix(green, c.low, 0.62), c.vary(((100, 82, 66),))
    c.sky(0.0, (0.0, _mix(green, hazy, 0.5)), (0.6, hazy), (0.76, hazy), (0.8, _mix(floor, hazy, 0.4)), (1.0, floor))
    for k, (u, v) in enumerate(c.rows(9, 2)):
        c.line(((k + u) / 9, 0.0, (k + u) / 9, 0.78), 0.012 + 0.014 * v, _mix(bark, hazy, 0.55))
    for number, foot, tall, w, depth in ((7, 0.74, 0.5, 0.085, 0.5), (4, 0.82, 0.68, 0.13, 0.2)):
        for k, (u, v, s) in enumerate(c.rows(number, 3)):
            x, shade = (k + 0.1 + 0.8 * u) / number, _mix(green, hazy, depth + 0.1 * v)
            c.line((x, foot + 0.12, x, foot - 0.05), 0.24 * w, _mix(shade, _BROWN, 0.6))
            for half, tone in ((w + 0.04 * s, _mix(shade, _DARK, 0.4)), (-w - 0.04 * s, shade)):
                c.shape(_TIERS, x, foot + 0.03 * s, half, -tall * (0.75 + 0.4 * v), tone)
    for k, (u, v) in enumerate(c.rows(c.count(3, 4), 2)):
        x, w = 0.5 + (1 if k % 2 else -1) * (0.26 + 0.24 * u), 0.022 + 0.02 * v
        c.polygon((x - w, 0, x + w, 0, x + 1.3 * w, 0.95, x - 1.3 * w, 0.95), bark)
        c.polygon((x - w, 0, x - 0.3 * w, 0, x - 0.4 * w, 0.95, x - 1.3 * w, 0.95), _mix(bark, c.low, 0.25))
    for u, v, w in c.rows(16, 3):
        x, reach, shade = 1.1 * u - 0.05, 0.07 + 0.08 * v, _mix(_mix(green, _DARK, 0.35), hazy, 0.35 * w)
        c.polygon((x - reach, -0.02, x - 0.6 * reach, 0.4 * reach, x, 0.9 * reach + 0.06 * w, x + reach, -0.02), shade)
    c.blades(24, 0.11, green)


def _meadow(c: _Canvas) -> None:
    h, (pale, near), first = c.between(0.28, 0.5), c.tones(_GRASS), c.count(0, 4)
    c.sky(h, (h, pale), (1.0, near))
    c.ridge(h + 0.02, c.between(0.03, 0.08), 1.0, _mix(pale, c.top, 0.3), h + 0.03)
    c.blades(36, 0.16, near)
    for k, (y, x, s) in enumerate(sorted(c.rows(c.count(42, 54), 3))):
        r, at = 0.007 + 0.02 * y * (0.7 + 0.3 * s), h + 0.08 + (0.88 - h) * y
        colour = _mix(_PETALS[(first + k % 3) % 5], near, 0.3 * (1 - y))
        c.line((x, at, x, at + 3.5 * r), 0.006, _mix(near, _DARK, 0.35 * y))
        c.ellipse(x, at, 1.5 * r, 0.65 * r, colour)
        c.ellipse(x, at, 0.65 * r, 1.4 * r, colour)
        c.ellipse(x, at, 0.5 * r, 0.5 * r, (214, 160, 60))


def _trees(c: _Canvas) -> None:
    h, (pale, near), side = c.between(0.54, 0.7), c.tones(_GRASS), 2 * c.count(0, 1) - 1
    c.sky(h, (h, pale), (1.0, near))
    c.ridge(h + 0.01, c.between(0.03, 0.07), 0.9, _mix(pale, near, 0.2), h + 0.05)
    leaf = c.vary(((92, 140, 72), (122, 144, 68), (78, 130, 92), (172, 142, 74)))
    slots = ((0.04, 0.07, 0.06), (-0.14, 0.09, 0.05), (0.3, 0.16, 0.12), (-0.34, 0.2, 0.18))[c.count(0, 1) :]
    for (at, scale, drop), (u, v, w) in zip(slots, c.rows(len(slots), 3), strict=True):
        x, r, foot = 0.5 + side * at + 0.1 * u - 0.05, scale * (0.85 + 0.3 * v), h + drop + 0.03 * w
        crown, trunk = foot - r * (1.75 + 0.35 * u), 0.13 * r
        c.ellipse(x + 0.25 * r, foot, 1.1 * r, 0.16 * r, _mix(near, _DARK, 0.3))
        c.polygon((x - trunk, crown, x + trunk, crown, x + 1.5 * trunk, foot, x - 1.5 * trunk, foot), _BROWN)
        c.bush(x, crown, r, _mix(c.vary((leaf,)), c.low, 0.18 if drop < 0.1 else 0.0))


def _bamboo(c: _Canvas) -> None:
    cane, green = c.vary(((132, 164, 78), (156, 170, 90), (108, 156, 92))), c.vary(((88, 138, 74),))
    hazy, pale = _mix(cane, c.low, 0.6), _mix(green, c.low, 0.3)
    c.sky(0.0, (0.0, _mix(hazy, c.low, 0.3)), (0.7, hazy), (1.0, _mix(cane, _BROWN, 0.2)))
    for number, w, depth in ((9, 0.014, 0.6), (6, 0.023, 0.34), (5, 0.035, 0.0)):
        body = _mix(cane, hazy, depth)
        dark, lit = _mix(body, _DARK, 0.4 * (1 - depth)), _mix(body, _LIT, 0.32 * (1 - depth))
        for k, (u, v, s, lean) in enumerate(c.rows(number, 4)):
            x, r, tilt = (k + 0.15 + 0.7 * u) / number, w * (0.85 + 0.3 * s), 0.08 * (lean - 0.5)
            c.line((x + tilt, 0, x - tilt, 1), 2 * r, body)
            c.line((x - 0.45 * r + tilt, 0, x - 0.45 * r - tilt, 1), 0.5 * r, lit)
            for j in range(5):
                y = (0.19 + 0.04 * s + w) * (j + v)
                at = x + tilt * (1 - 2 * y)
                c.line((at - 1.2 * r, y, at + 1.2 * r, y), 0.3 * r + 0.004, dark)
    for k, (u, v) in enumerate(c.rows(c.count(8, 11), 2)):
        x, y = (u, 0.2 * v - 0.05) if k < 5 else (0.5 + (1 if k % 2 else -1) * (0.26 + 0.2 * u), 0.2 + 0.7 * v)
        for j, (a, b) in enumerate(c.rows(5, 2)):
            dx, dy = 0.085 * (j - 2.5 + a), 0.05 + 0.09 * b + 0.02 * j * (4 - j)
            c.polygon((x, y, x + 0.4 * dx + 0.2 * dy, y + 0.4 * dy - 0.2 * dx, x + dx, y + dy), (green, pale)[j % 2])


_PLACES: dict[str, Callable[[_Canvas], None]] = {
    draw.__name__[1:]: draw for draw in (_sea, _lake, _river, _sand, _rocks, _forest, _meadow, _trees, _bamboo)
}
