#!/usr/bin/env python3
"""Prints the figures of tests/nn/rope_scaling_test.cpp, in arithmetic of 50 digits (Debian's python3-mpmath).

    python3 tests/golden/make_rope.py

Each line: the setting, pair i, its frequency; and for some, position p with the cosine and sine of the table.
"""
from mpmath import mp, mpf, cos, floor, ceil, log, pi, sin

mp.dps = 50
SETTINGS = {
    "linear": ("linear", 128, 10**4, 4, 4096),
    "ntk 4": ("ntk", 128, 10**4, 4, 4096),
    "ntk 8": ("ntk", 128, 10**4, 8, 4096),
    "llama3.1": ("llama3", 128, 5 * 10**5, 8, 8192),
    "llama3.2": ("llama3", 64, 5 * 10**5, 32, 8192),
    "gpt-oss": ("yarn", 64, 150000, 32, 4096, False),
    "gpt-oss truncated": ("yarn", 64, 150000, 32, 4096, True),
    "deepseek-v3": ("yarn", 64, 10**4, 40, 4096, True),
    "qwen2.5": ("yarn", 128, 10**6, 4, 32768, True),
    "olmo-3": ("yarn", 128, 5 * 10**5, 8, 8192, True),
}


def frequency(i, method, width, base, s, length, truncate=True):
    base, s, length = mpf(base), mpf(s), mpf(length)
    f = base ** (-mpf(2 * i) / width)
    if method == "linear":
        return f / s
    if method == "ntk":
        return f * s ** (-mpf(2 * i) / (width - 2))
    if method == "llama3":
        turns = length * f / (2 * pi)
        share = min(max((turns - 1) / 3, 0), 1)
        return f * (share + (1 - share) / s)
    ends = [width * log(length / (2 * pi * turns), base) / 2 for turns in (32, 1)]
    if truncate:
        ends = [floor(ends[0]), ceil(ends[1])]
    stretched = min(max((i - ends[0]) / (ends[1] - ends[0]), 0), 1)
    return f * (1 - stretched) + f / s * stretched


for name, setting in SETTINGS.items():
    pairs = {1, 10, 15, 17, 18, 24, 29, 31, 34, 35, 40, 63}
    for i in sorted(p for p in pairs if p < setting[1] // 2):
        print(f'{{"{name}", {i}, {mp.nstr(frequency(i, *setting), 20)}}},')
for name, i, p in (("gpt-oss", 10, 4095), ("gpt-oss", 31, 131071), ("llama3.1", 31, 131071), ("olmo-3", 24, 65535)):
    method, _, _, s = SETTINGS[name][:4]
    angle, size = p * frequency(i, *SETTINGS[name]), (log(s) / 10 + 1 if method == "yarn" else 1)
    print(f'{{"{name}", {i}, {p}, {mp.nstr(size * cos(angle), 12)}, {mp.nstr(size * sin(angle), 12)}}},')
