"""What a number of users and memories needs: bytes, nodes, connections; a calculation, no server.

    python benchmarks/scale_plan.py --users 1000000 --memories 1000

The bytes of a row are assumptions, for 20 words a memory and a vector of 384 half-precision
numbers; put in yours, which `scale_postgres.py` prints as `bytes_per_memory`. The connections in
use are simulated: transactions arrive at random (a Poisson process) and last a random time, and
what is printed is the most that were under way at once in a simulated minute.
"""

from __future__ import annotations

import argparse
import heapq
import random

GB = 1e9


def most_at_once(rate: float, seconds: float, *, minutes: float = 1.0, seed: int = 7) -> int:
    """The most transactions under way at once when `rate` arrive a second, each so long."""
    draw = random.Random(seed)
    now, most = 0.0, 0
    ends: list[float] = []
    while now < 60 * minutes:
        now += draw.expovariate(rate)
        while ends and ends[0] < now:
            heapq.heappop(ends)
        heapq.heappush(ends, now + draw.expovariate(1 / seconds))
        most = max(most, len(ends))
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--memories", type=int, default=1_000, help="of each user")
    parser.add_argument("--words", type=int, default=20, help="of a memory")
    parser.add_argument("--row-bytes", type=int, default=1_400, help="a memory with its indexes")
    parser.add_argument("--posting-bytes", type=int, default=150, help="with its index")
    parser.add_argument("--vector-bytes", type=int, default=900, help="with its indexes")
    parser.add_argument("--active", type=float, default=0.1, help="part of the users a day")
    parser.add_argument("--node-gb", type=float, default=64, help="memory of one node for pages")
    parser.add_argument("--turns", type=float, default=20, help="of an active user a day")
    parser.add_argument("--transactions", type=float, default=12, help="of one turn")
    parser.add_argument("--milliseconds", type=float, default=5, help="of one transaction")
    said = parser.parse_args()
    rows = said.users * said.memories
    each = said.row_bytes + said.words * said.posting_bytes + said.vector_bytes
    hot = rows * each * said.active
    rate = said.users * said.active * said.turns * said.transactions / 86_400
    busiest = 4 * rate
    print(f"rows                        {rows:>20,}")
    print(f"bytes of one memory         {each:>20,}")
    print(f"on disk                     {rows * each / GB:>17,.0f} GB")
    print(f"used every day              {hot / GB:>17,.0f} GB")
    print(f"nodes that hold that        {max(1, round(hot / GB / said.node_gb + 0.5)):>20,}")
    print(f"transactions a second       {rate:>20,.0f}  (four times that in the busiest hour)")
    print(f"connections in use at most  {most_at_once(busiest, said.milliseconds / 1000):>20,}")


if __name__ == "__main__":
    main()
