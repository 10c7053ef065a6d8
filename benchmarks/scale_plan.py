"""What a number of users and memories needs: bytes, nodes, partitions, connections, commits.

    python benchmarks/scale_plan.py --users 1000000 --memories 1000

A calculation and four small simulations; no server. Bytes and CPU of one memory, search and add are
what `scale_postgres.py` measured; put in yours.

- connections: transactions arrive at random (a Poisson process) and last a random time; printed is
  the most that were under way at once in a simulated minute;
- partitions: users own unequal numbers of memories (log-normal) and fall into partitions by a hash;
  printed is how much larger the largest is than the mean;
- commits: writers of one tenant arrive at random and commit one after the other, each as long as a
  flush of the log; printed is how long the slowest twentieth waits;
- replicas: a replica lies behind by a random time (exponential); printed is how many reads right
  after a write of their own it answers within the wait, the others go to the primary.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import random
from itertools import pairwise

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


def largest_partition(partitions: int, *, users: int = 20_000, seed: int = 7) -> float:
    """The largest partition over the mean one, for users of unequal sizes."""
    draw = random.Random(seed)
    sizes = [0.0] * partitions
    for user in range(users):
        key = hashlib.blake2b(str(user).encode(), digest_size=4).digest()
        sizes[int.from_bytes(key, "little") % partitions] += draw.lognormvariate(0, 1.5)
    return max(sizes) * partitions / sum(sizes)


def slow_commit(rate: float, flush: float, *, seconds: float = 120.0, seed: int = 7) -> float:
    """How long one commit in twenty takes at least, when they follow each other."""
    draw = random.Random(seed)
    now = free = 0.0
    took: list[float] = []
    while now < seconds:
        now += draw.expovariate(rate)
        free = max(now, free) + flush
        took.append(free - now)
    return sorted(took)[int(0.95 * len(took))]


def fresh_reads(lag: float, wait: float, *, reads: int = 50_000, seed: int = 7) -> float:
    """How many of the reads after a write a replica answers that waits so long for it."""
    draw = random.Random(seed)
    return sum(draw.expovariate(1 / lag) <= wait for _ in range(reads)) / reads


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--memories", type=int, default=1_000, help="of each user")
    parser.add_argument("--bytes", type=int, default=5_100, help="of a memory with its indexes")
    parser.add_argument("--active", type=float, default=0.1, help="part of the users a day")
    parser.add_argument("--node-gb", type=float, default=64, help="memory of one node for pages")
    parser.add_argument("--cores", type=int, default=16, help="of one node")
    parser.add_argument("--turns", type=float, default=20, help="of an active user a day")
    parser.add_argument("--search-ms", type=float, default=6, help="CPU of the server, one search")
    parser.add_argument("--add-ms", type=float, default=5, help="CPU of the server, one add")
    parser.add_argument("--adds", type=float, default=3, help="of one turn")
    parser.add_argument("--transactions", type=float, default=12, help="of one turn")
    parser.add_argument("--milliseconds", type=float, default=5, help="of one transaction")
    parser.add_argument("--flush-ms", type=float, default=2, help="one flush of the log")
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--lag-ms", type=float, default=50, help="of a replica, on average")
    parser.add_argument("--wait-ms", type=float, default=1000, help="for a replica")
    said = parser.parse_args()
    rows = said.users * said.memories
    hot = rows * said.bytes * said.active
    turns = said.users * said.active * said.turns / 86_400
    busiest = 4 * turns
    work = (said.search_ms + said.adds * said.add_ms) / 1000
    print(f"rows                        {rows:>20,}")
    print(f"on disk                     {rows * said.bytes / GB:>17,.0f} GB")
    print(f"used every day              {hot / GB:>17,.0f} GB")
    print(f"nodes that hold that        {max(1, round(hot / GB / said.node_gb + 0.5)):>20,}")
    print(f"turns a second              {turns:>20,.0f}  ({busiest:,.0f} in the busiest hour)")
    print(f"cores busy in that hour     {busiest * work:>20,.1f}")
    served = said.cores * 0.5 / work / 4 * 86_400 / said.turns / said.active
    print(f"users of one node           {served:>20,.0f}  ({said.cores} cores, half of them busy)")
    rate = max(busiest * said.transactions, 0.01)
    print(f"connections in use at most  {most_at_once(rate, said.milliseconds / 1000):>20,}")
    largest = largest_partition(said.partitions)
    print(f"largest of {said.partitions:>4} partitions  {largest:>19.2f} x the mean")
    for earlier, share in pairwise((0.0, 0.3, 0.6, 0.9)):
        at = share * 1000 / said.flush_ms
        slow = 1000 * slow_commit(at, said.flush_ms / 1000)
        note = "one tenant's commits" if not earlier else ""
        print(f"  {at:>6.0f} a second, p95       {slow:>17.1f} ms  {note}".rstrip())
    fresh = fresh_reads(said.lag_ms / 1000, said.wait_ms / 1000)
    print(f"reads a replica answers     {100 * fresh:>18.2f} %  (the others go to the primary)")


if __name__ == "__main__":
    main()
