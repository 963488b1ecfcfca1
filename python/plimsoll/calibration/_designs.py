"""Seeded random inputs of kernels."""

from __future__ import annotations

import random
from dataclasses import dataclass

from plimsoll.calibration._forms import ELEMENT_BYTES

COLUMNS = (16, 32, 64, 96, 128, 192, 256)
ZIPF = 1.05


@dataclass(frozen=True)
class Design:
    """Tables of one call.

    Attributes:
        tables: (rows, columns, ids a sample).
        samples: Of a call.
        zipf: Exponent of the ids' distribution; 0: uniform.
        seed: Of the ids.
    """

    tables: tuple[tuple[int, int, int], ...]
    samples: int
    zipf: float
    seed: int


def draw_designs(count: int, seed: int, data_type: str, max_bytes: int, max_lookups: int) -> list[Design]:
    """1 to 16 tables of 100 to 4 million rows, 16 to 256 columns, 1 to 50 ids, 256 to 8,192 samples; a quarter skewed.

    All log-uniform; rows, then samples and ids, are lowered where a design would exceed `max_bytes` of weights or
    `max_lookups` ids.
    """
    draw = random.Random(f"{seed} {data_type}")

    def log_uniform(low: float, high: float) -> float:
        return float(low * (high / low) ** draw.random())

    designs = []
    for number in range(count):
        num_tables = round(log_uniform(1, 16))
        samples = 1 << round(draw.uniform(8, 13))
        shared_columns = draw.choice(COLUMNS)
        is_mixed = draw.random() < 0.5
        tables = [
            [
                round(log_uniform(100, 4e6)),
                draw.choice(COLUMNS) if is_mixed else shared_columns,
                round(log_uniform(1, 50)),
            ]
            for _ in range(num_tables)
        ]
        for table in tables:
            table[0] = min(table[0], max(100, max_bytes // num_tables // (table[1] * ELEMENT_BYTES[data_type])))
        while samples > 256 and samples * sum(table[2] for table in tables) > max_lookups:
            samples //= 2
        for table in tables:
            table[2] = min(table[2], max(1, max_lookups // num_tables // samples))
        zipf = ZIPF if number % 4 == 3 else 0.0
        designs.append(Design(tuple((r, c, i) for r, c, i in tables), samples, zipf, draw.randrange(2**31)))
    return designs
