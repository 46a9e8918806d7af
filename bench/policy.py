"""What the server adds: a question to a policy, and a warm query over HTTP beside the same call in this process.

Run: python bench/policy.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import httpx

import omnigraph as og
from omnigraph.policy import Action, PolicyQuestion, load_policy
from omnigraph.server import Role, ServedGraph, ServerSettings, build_app, create_token, open_hosting

ROUNDS = 300
EXAMPLE = Path(__file__).parents[1] / "examples" / "server"
QUERY = "query q() { match { $p: Person } return { $p.name } }"


def measure(work: Callable[[int], object]) -> float:
    """Return the milliseconds of CPU for each call, after one call that warms up."""
    work(-1)
    began = process_time()
    for number in range(ROUNDS):
        work(number)
    return (process_time() - began) / ROUNDS * 1000


def main() -> None:
    """Print one line for each measurement."""
    policy = load_policy(EXAMPLE / "policy.yaml", "brain")
    fresh = measure(lambda number: policy.decide(PolicyQuestion("act-ines", Action.READ, f"branch-{number}")))
    kept = measure(lambda _: policy.decide(PolicyQuestion("act-ines", Action.READ, "main")))
    print(f"ask the policy, a new question     {fresh:8.3f} ms")
    print(f"ask the policy, asked before       {kept:8.3f} ms")
    with tempfile.TemporaryDirectory() as folder:
        path, tokens = Path(folder) / "brain.og", Path(folder) / "tokens.json"
        graph = og.init(path, EXAMPLE / "schema.pg")
        graph.load(EXAMPLE / "people.jsonl")
        text = create_token(tokens, "act-ines", Role.WRITE, None, None)[1]
        here = measure(lambda _: graph.query(QUERY).rows)
        print(f"warm query, in process             {here:8.3f} ms")
        for name, rules in (("without a policy", None), ("with a policy", policy)):
            served = ServerSettings((ServedGraph("brain", str(path), policy=rules),), tokens=tokens)
            print(f"warm query, {name:<22} {measure_served(served, text):8.3f} ms (application and client)")


def measure_served(settings: ServerSettings, token: str) -> float:
    """Return the milliseconds of a warm query through the whole application, without a socket."""
    hosting, _ = open_hosting(settings)
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(build_app(hosting)),
        base_url="http://127.0.0.1",
        headers={"Authorization": f"Bearer {token}"},
    )
    with asyncio.Runner() as runner:

        def ask(_number: int) -> None:
            answer = runner.run(client.post("/graphs/brain/query", json={"query": QUERY}))
            answer.raise_for_status()

        found = measure(ask)
        runner.run(client.aclose())
    hosting.close()
    return found


if __name__ == "__main__":
    main()
