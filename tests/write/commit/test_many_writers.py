"""Eight processes write to two branches of one graph at once, and what each was told is held against the history.

Every worker notes what it asked for and what it was told. The commits of a branch, played one after the other on a
plain model, must give exactly what the graph shows at each of them: so nothing acknowledged is lost, nothing refused
is there, no two transfers saw the same money, and no edge ever lacked an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConflictError, ValidationError
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Snapshot
from tests.crash import Pipe, pipe, start

SCHEMA = """
node Account { code: String @key  balance: I64  holds: String @unique }
node Owner { code: String @key }
edge Owns: Owner -> Account
"""
ACCOUNTS = tuple(f"a{number}" for number in range(6))
BRANCHES = ("main", "review")
OPENING_BALANCE = 100
WORKERS = 8
MANY = 100
"""Of so many requests of each writer, every kind is granted at some time, whatever comes first."""
PATIENCE = 900.0

JOIN = """query join($owner: String, $account: String) {
  insert Owner { code: $owner }
  insert Owns { from: $owner, to: $account }
}"""
SHARE = "query share($owner: String, $account: String) { insert Owns { from: $owner, to: $account } }"
LEAVE = "query leave($owner: String) { delete Owner where code = $owner }"
# An account says what it holds in one text, so that one predicate finds it only while its balance is the one read.
SET_BALANCE = """query balance($was: String, $is: String, $balance: I64) {
  update Account set { balance: $balance, holds: $is } where holds = $was
}"""


def describe_holding(account: str, balance: int) -> str:
    return f"{account}:{balance}"


# --------------------------------------------------------------------------------------------- the model


@dataclass(slots=True)
class Bank:
    """What one branch shows."""

    balances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACCOUNTS, OPENING_BALANCE))
    owners: set[str] = field(default_factory=set[str])
    owns: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


def read_bank(snapshot: Snapshot) -> Bank:
    """What a snapshot shows, whose texts must agree with the balances."""
    accounts = {str(row["code"]): row for row in _rows(snapshot, "Account")}
    balances = {code: cast(int, row["balance"]) for code, row in accounts.items()}
    assert {str(row["holds"]) for row in accounts.values()} == {describe_holding(*held) for held in balances.items()}
    owners = [str(row["code"]) for row in _rows(snapshot, "Owner")]
    assert len(set(owners)) == len(owners)
    return Bank(balances, set(owners), Counter((str(row["src"]), str(row["dst"])) for row in _rows(snapshot, "Owns")))


def _rows(snapshot: Snapshot, type_name: str) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", snapshot.table(type_name).scan().read_all().to_pylist())


# --------------------------------------------------------------------------------------------- what workers ask for


@dataclass(frozen=True, slots=True)
class Join:
    """A new owner of an account: two tables, inserts only."""

    owner: str
    account: str

    def run(self, graph: Graph, branch: str, message: str) -> Commit | None:
        params = {"owner": self.owner, "account": self.account}
        return graph.mutate(JOIN, params=params, branch=branch, message=message).commit

    def play(self, bank: Bank) -> None:
        bank.owners.add(self.owner)
        bank.owns[self.owner, self.account] += 1


@dataclass(frozen=True, slots=True)
class Share:
    """One more account for an owner, who may have left."""

    owner: str
    account: str

    def run(self, graph: Graph, branch: str, message: str) -> Commit | None:
        params = {"owner": self.owner, "account": self.account}
        return graph.mutate(SHARE, params=params, branch=branch, message=message).commit

    def play(self, bank: Bank) -> None:
        bank.owns[self.owner, self.account] += 1


@dataclass(frozen=True, slots=True)
class Leave:
    """An owner goes, and what it owned with it. It is not tried again, so others may be in its way."""

    owner: str

    def run(self, graph: Graph, branch: str, message: str) -> Commit | None:
        return graph.mutate(LEAVE, params={"owner": self.owner}, branch=branch, message=message).commit

    def play(self, bank: Bank) -> None:
        bank.owners.remove(self.owner)
        bank.owns = Counter({pair: count for pair, count in bank.owns.items() if pair[0] != self.owner})


@dataclass(frozen=True, slots=True)
class Transfer:
    """Two accounts in one transaction, tried until it is done."""

    source: str
    target: str
    amount: int

    def run(self, graph: Graph, branch: str, message: str) -> Commit | None:
        while True:
            balances = read_bank(graph.snapshot(branch)).balances
            try:
                with graph.transaction(branch, message) as tx:
                    for account, amount in ((self.source, -self.amount), (self.target, self.amount)):
                        was, is_ = balances[account], balances[account] + amount
                        params = {
                            "was": describe_holding(account, was),
                            "is": describe_holding(account, is_),
                            "balance": is_,
                        }
                        if not tx.mutate(SET_BALANCE, params=params).affected_nodes:
                            raise ConflictError("the balance is another one by now")
            except ConflictError:
                continue
            assert tx.result is not None
            return tx.result.commit

    def play(self, bank: Bank) -> None:
        bank.balances[self.source] -= self.amount
        bank.balances[self.target] += self.amount


Request: TypeAlias = Join | Share | Leave | Transfer


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A request and the answer. Without a commit it was refused, or had nothing to do."""

    request: Request
    branch: str
    message: str
    commit_id: str | None


# --------------------------------------------------------------------------------------------- the workers


def work(answer: Pipe, uri: str, worker: int, requests: int) -> None:
    """One process: ask for one thing after the other, on either branch."""
    graph, random = omnigraph.open(uri), Random(worker)  # noqa: S311  no secret
    told: list[WorkerReport] = []
    for number in range(requests):
        branch, message = random.choice(BRANCHES), f"{worker}-{number}"
        request = choose_request(random, message, sorted(read_bank(graph.snapshot(branch)).owners))
        try:
            made = request.run(graph, branch, message)
        except (ConflictError, ValidationError):
            made = None
        told.append(WorkerReport(request, branch, message, None if made is None else made.id))
    answer.send(told)


def choose_request(random: Random, newcomer: str, owners: list[str]) -> Request:
    account, other = random.sample(ACCOUNTS, 2)
    # Few owners are asked for, so that workers ask for the same one; it may leave before its turn comes.
    somebody = random.choice([*owners[:3], "nobody"])
    kinds: list[Callable[[], Request]] = [
        lambda: Join(newcomer, account),
        lambda: Share(somebody, account),
        lambda: Leave(somebody),
        lambda: Transfer(account, other, random.randint(1, 20)),
    ]
    return random.choices(kinds, weights=(3, 2, 2, 2))[0]()


def run_workers(uri: str, requests: int) -> list[WorkerReport]:
    """What all workers were told."""
    told: list[WorkerReport] = []
    answers: list[Pipe] = []
    for worker in range(WORKERS):
        ours, theirs = pipe()
        start(work, theirs, uri, worker, requests)
        theirs.close()
        answers.append(ours)
    for answer in answers:
        assert answer.poll(PATIENCE), f"no answer in {PATIENCE} s"
        told += cast("list[WorkerReport]", answer.recv())
    return told


def make_bank(folder: Path) -> Graph:
    graph = omnigraph.init(folder / "bank.og", SCHEMA)
    texts = [describe_holding(account, OPENING_BALANCE) for account in ACCOUNTS]
    accounts = pa.table({"code": ACCOUNTS, "balance": [OPENING_BALANCE] * len(ACCOUNTS), "holds": texts})
    graph.load(nodes={"Account": accounts})
    for branch in BRANCHES[1:]:
        graph.create_branch(branch)
    return graph


# --------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize(
    "requests", [pytest.param(6, id="48 requests"), pytest.param(250, id="2000 requests", marks=pytest.mark.slow)]
)
def test_the_history_is_what_the_writers_were_told(tmp_path: Path, requests: int) -> None:
    graph = make_bank(tmp_path)
    opened = len(graph.commits())
    told = run_workers(graph.uri, requests)
    assert len(told) == WORKERS * requests
    for branch in BRANCHES:
        made = graph.commits(branch)[:-opened]
        acknowledged = {each.commit_id: each for each in told if each.branch == branch and each.commit_id is not None}
        assert {commit.id: commit.message for commit in made} == {
            commit_id: each.message for commit_id, each in acknowledged.items()
        }
        assert_linear_history(graph.commits(branch))
        bank = Bank()
        for commit in reversed(made):
            acknowledged[commit.id].request.play(bank)
            assert_bank(graph.snapshot(branch, at=commit.id), bank)
        assert_bank(graph.snapshot(branch), bank)
    if requests > MANY:
        assert_all_kinds(told)
    assert list(graph._manifest.objects.list("__recovery")) == []
    assert graph.recoveries() == []


def assert_linear_history(newest_first: list[Commit]) -> None:
    ids = [commit.id for commit in newest_first]
    assert len(set(ids)) == len(ids)
    assert [commit.parents for commit in newest_first] == [*((parent,) for parent in ids[1:]), ()]


def assert_bank(snapshot: Snapshot, expected: Bank) -> None:
    bank = read_bank(snapshot)
    assert bank == expected
    assert sum(bank.balances.values()) == OPENING_BALANCE * len(ACCOUNTS)
    assert {owner for owner, _ in bank.owns} <= bank.owners
    assert {account for _, account in bank.owns} <= bank.balances.keys()


def assert_all_kinds(told: list[WorkerReport]) -> None:
    """Each kind of request was granted, and those that may be refused were."""
    granted = {type(each.request) for each in told if each.commit_id is not None}
    refused = {type(each.request) for each in told if each.commit_id is None}
    assert granted == {Join, Share, Leave, Transfer}
    assert refused == {Share, Leave}
