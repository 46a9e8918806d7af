"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Generator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from omnigraph.storage.location import Location, locate
from tests import cpu_report, crash
from tests.s3 import S3Server, serving
from tests.s3_proxy import Proxy, proxying
from tests.selection import LARGE, sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# No random test depends on how busy the machine is.
settings.register_profile(
    "any machine", max_examples=sized(25, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Syncs cost time and change nothing that a killed process leaves; tests of durability choose it themselves.
os.environ.setdefault("OMNIGRAPH_DURABILITY", "process")

# A shell starts its background jobs with interrupts ignored, which all their children inherit; tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests make and delete a hundred thousand small files: in memory that takes half the time, where there is room.
MEMORY: Final = Path("/dev/shm")  # noqa: S108
ROOM: Final = 8 << 30
IN_MEMORY: Final = "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
if IN_MEMORY:
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="omnigraph-tests-", dir=MEMORY)
    # Killed processes leave files. The folder goes at exit, after multiprocessing has removed its own from it, at -100.
    # Workers find it in their environment, and leave it.
    Finalize(None, shutil.rmtree, (tempfile.tempdir,), {"ignore_errors": True}, exitpriority=-200)
    # Some tests act as another user.
    Path(tempfile.tempdir).chmod(0o755)
# Servers keep their state there: not in the home of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = str(Path(tempfile.gettempdir()) / "omnigraph-states")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options that only these tests have."""
    cpu_report.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Start what the options ask for."""
    cpu_report.register(config)


COSTLY_FIXTURES: Final = frozenset({"child", "spark", "s3_server", "s3_proxy", "warm"})
COSTLY_MODULES: Final = re.compile(
    "backup|base_install|beside|cancel|cleanup|comments|costs|crash|differential|disk|docs|drift|"
    "evolve_branches|examples|fault|feed|flows|fuzz|hazards|histor|imports|interrupt|kill|lagging|layout|legacy|"
    "life|live|merge_|migration|networkx|optimize|origins|overtaken|power|protocol|race|recover|relocation|remote_|s3|"
    "schema_input|spark|staged|state_machine|stress|torn|tutorial|traps|upkeep|views|waits"
)
CHEAP_FAMILIES: Final = re.compile(r"^tests/language/|^tests/test_cases\.py")


# A session that lives for minutes and runs each plan once: what a second compiler, whole-stage code, adaptive plans and
# verified classes gain comes too late. The long run has them, as users do.
SHORT_LIVED_SPARK: Final = {
    "spark.driver.extraJavaOptions": " ".join(
        (
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-BytecodeVerificationRemote",
        )
    ),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}

# Not those that say that something does without it.
USES_SPARK: Final = re.compile(
    r"(?<!without_)(?<!needs_)(?<!\[)spark|pipeline_run|cli_pipeline|shows_the_main_job", re.IGNORECASE
)


# Few tests, each of which takes seconds and builds what it needs itself.
SPREAD_MODULES: Final = re.compile("crash|cuts|fault|histor|kill|life|live|protocol|race|recover|stress|whole")


class FileScheduling(LoadScopeScheduling):
    """Gives each worker whole files, largest first, so that what the tests of a file share is built once.

    Tests of Spark go to one worker, and so to one warm JVM. Long tests go one by one, at the end, to whoever is free.
    """

    def _split_scope(self, nodeid: str) -> str:
        if USES_SPARK.search(nodeid):
            return "spark"
        file = nodeid.partition("::")[0]
        return nodeid if SPREAD_MODULES.search(file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Choose the scheduler. Groups of xdist itself are lost with pytest 9, which no longer takes them from node ids."""
    return FileScheduling(config, log)


_STEP_BACK: Final = 4


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the worker with the tests of Spark go first: it has the longest way, and the others share what it leaves."""
    if "PYTEST_XDIST_WORKER" in os.environ and not USES_SPARK.search(item.nodeid) and not os.nice(0):
        os.nice(_STEP_BACK)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without searching for garbage: modules and tests stay, and no later search has to visit them either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what ``make test-fast`` leaves out: Java, servers, processes, histories, and all but one of a family."""
    families: set[str] = set()
    for item in items:
        test = cast("pytest.Function", item)
        family = test.nodeid.partition("[")[0]
        if COSTLY_MODULES.search(test.path.name) or (family in families and not CHEAP_FAMILIES.search(family)):
            test.add_marker(pytest.mark.costly)
        if not test.get_closest_marker("slow"):
            families.add(family)
        if "spark" in test.fixturenames:
            assert USES_SPARK.search(test.nodeid), f"{test.nodeid} uses Spark: let its name say so"
        if COSTLY_FIXTURES.intersection(test.fixturenames) or _starts_processes(cast(ModuleType, test.module)):
            test.add_marker(pytest.mark.costly)


@cache
def _starts_processes(module: ModuleType) -> bool:
    return any(
        value is crash or getattr(value, "__module__", None) == crash.__name__ for value in vars(module).values()
    )


@pytest.fixture(scope="session")
def s3_server() -> Generator[S3Server]:
    """One server for all tests of this process."""
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def s3_bucket(s3_server: S3Server) -> str:
    """One bucket for all tests of this process; each test takes a prefix of its own."""
    return s3_server.create_bucket()


@pytest.fixture
def s3_location(s3_server: S3Server, s3_bucket: str) -> Location:
    """The root of a graph that does not exist yet, on S3."""
    return locate(f"s3://{s3_bucket}/{uuid4().hex}", s3_server.options)


@pytest.fixture(scope="session")
def ddb_table(s3_server: S3Server) -> str:
    """One DynamoDB table for all tests of this process, to list the versions of Lance in."""
    return s3_server.create_version_table()


@pytest.fixture
def ddb_location(s3_location: Location, ddb_table: str, s3_server: S3Server) -> Location:
    """The root of a graph that does not exist yet, on S3 with DynamoDB as Lance's external manifest store."""
    return locate(f"s3+ddb://{s3_location.base}?ddbTableName={ddb_table}", s3_server.options)


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Generator[Proxy]:
    """A proxy in front of the server, that counts requests and injects faults."""
    with proxying(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def local_location(tmp_path: Path) -> Location:
    """The root of a graph that does not exist yet, on the local disk."""
    return locate(tmp_path / "graph.og")


@pytest.fixture
def forbidden() -> Generator[Path]:
    """A folder that others may read and nobody but root may change."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x").write_bytes(b"1")
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


@pytest.fixture(scope="session")
def spark() -> Generator[SparkSession]:
    """One local Spark for all tests of this process, started when the first of them asks for it."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in (settings if LARGE else {**settings, **SHORT_LIVED_SPARK}).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Java is started through a fork that is followed by exec at once: Lance is not used in between.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        session = builder.master("local[2]").appName("tests").getOrCreate()
    yield session
    session.stop()
