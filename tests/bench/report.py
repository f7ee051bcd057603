"""What a benchmark measured, beside the bounds that it has to keep."""

from __future__ import annotations

import math


class Report:
    """Prints each value with its bounds, and counts those that are missed."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, value: float, *, least: float = -math.inf, most: float = math.inf) -> None:
        ok = least <= value <= most
        self.missed += not ok
        bound = " and ".join(
            [f">= {least:g}"] * math.isfinite(least) + [f"<= {most:g}"] * math.isfinite(most)
        )
        print(f"  {what:<58} {value:12,.3f}   {bound:<20} {'ok' if ok else 'MISSED'}", flush=True)
