"""The compiled core. Its functions accept text and return tables; other modules of aqmlab provide the
interface for users."""

from pathlib import Path as _FilePath
from typing import Any, Literal, TypeAlias, final

__all__ = [
    "RESULTS_VERSION",
    "Document",
    "GuestFault",
    "IsolationError",
    "LiveError",
    "Output",
    "Path",
    "PcapError",
    "Plan",
    "RunError",
    "ScenarioError",
    "Table",
    "TraceError",
    "Watch",
    "__version__",
    "catalog",
    "describe_workload",
    "drop_curve",
    "lay_over",
    "live_privileges",
    "needs_user_namespace",
    "quantity",
    "run_guests",
    "run_in_user_namespace",
    "run_live",
    "tc_kinds",
    "tc_qdisc",
    "transport",
    "write_pcap",
]

__version__: str
RESULTS_VERSION: int

class ScenarioError(ValueError):
    """Errors in a scenario, one line each."""

    path: str
    problem: str
    problems: list[tuple[str, str]]
    without_effect: list[str]

class RunError(RuntimeError):
    """A workload ended the run, for example because a guest violated its contract. `report` describes the
    circumstances, and is empty if the message is complete."""

    report: str

class TraceError(ValueError):
    """A file that cannot be read or written, or is not a valid trace."""

class PcapError(RuntimeError):
    """The packets of a run cannot be written, for example because the run recorded no packets. The message
    contains a remedy."""

@final
class Document:
    """A parsed scenario whose parameters have not been checked."""

    @staticmethod
    def of_toml(text: str, folder: str) -> Document: ...
    @staticmethod
    def of_json(text: str) -> Document: ...
    @property
    def json(self) -> str: ...
    @property
    def files(self) -> list[str]: ...
    def plan(self, files: dict[str, str]) -> Plan: ...

@final
class Plan:
    """A checked scenario."""

    @property
    def level(self) -> str: ...
    @property
    def effective(self) -> str: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def derived(self) -> str: ...
    def rate_steps(self, link: str, most: int) -> list[tuple[float, str]]: ...
    def digest(self) -> str: ...
    def run(self, watch: Watch, seed: int | None = None, guests: str | None = None) -> Output: ...
    def write_trace(self, path: str, watch: Watch) -> str: ...

@final
class Watch:
    """The progress of a run for another thread, which may stop the run."""

    def __init__(self) -> None: ...
    def progress(self) -> tuple[int, int]: ...
    @property
    def unit(self) -> str: ...
    def stop(self) -> None: ...
    @property
    def stopped(self) -> bool: ...
    def show_progress(self, done: int, total: int) -> None: ...
    def hold(self, until_s: float) -> None: ...
    def view(self) -> str | None: ...

@final
class Table:
    """A table of results, for example for `polars.DataFrame(table)`."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any: ...

@final
class Output:
    """The results of a run."""

    @property
    def manifest(self) -> str: ...
    @property
    def events(self) -> int: ...
    @property
    def forwarded(self) -> int | None: ...
    @property
    def other_cpu_s(self) -> float: ...
    def digest(self) -> str: ...
    def tables(self) -> str: ...
    def names(self) -> list[str]: ...
    def table(self, name: str) -> Table: ...

_Direction: TypeAlias = Literal["forward", "reverse"]
_Ecn: TypeAlias = Literal["not-ect", "ect0", "ect1", "ce"]

@final
class Path:
    """A path, which transports datagrams between two ends. Times are in nanoseconds."""

    @staticmethod
    def of_toml(text: str, files: dict[str, str], seed: int | None) -> Path: ...
    @staticmethod
    def of_json(text: str, files: dict[str, str], seed: int | None) -> Path: ...
    @staticmethod
    def of_plan(plan: Plan, seed: int | None) -> Path: ...
    @staticmethod
    def files_of(text: str) -> list[str]: ...
    def open_flow(
        self, traffic: str | None, host: int, protocol: str | None, port: int | None, dscp: int | None
    ) -> int: ...
    def send(self, flow: int, direction: str, size: int, now: int, ecn: str) -> int: ...
    def poll(
        self, now: int
    ) -> (
        tuple[int, int, _Direction, int, _Ecn | None, tuple[str, str, int] | None, tuple[str, str] | None]
        | None
    ): ...
    def next_due(self) -> int | None: ...
    @property
    def in_transit(self) -> int: ...
    def links(self) -> str: ...
    def digest(self) -> str: ...

class GuestFault(RuntimeError):
    """A guest violated the contract. The arguments are the message (the end of the path, the time and the
    violation), descriptions of the last requests with their answers, and the ends of the standard errors of
    both programs."""

    args: tuple[str, list[str], list[str]]

class IsolationError(RuntimeError):
    """The system cannot isolate a guest. The message contains the reason and the option that starts guests
    without isolation."""

def run_guests(
    client: list[str],
    server: list[str],
    path: str,
    files: dict[str, str],
    seed: int,
    configs: tuple[str, str] | list[str],
    until: int,
    header: int,
    time_limit_s: float,
    isolation: bool,
    watch: Watch,
) -> str: ...
def catalog() -> str: ...
def transport(text: str) -> str: ...
def lay_over(base: str, over: str) -> str: ...
def quantity(text: str) -> tuple[float, str]: ...
def describe_workload(table: str) -> str: ...
def drop_curve(
    queue: str, averages: list[float], relative_window: float, service_class: int = 0
) -> list[float | None]: ...
def tc_qdisc(queue: str, rate: str, device: str, shape: bool) -> str: ...
def tc_kinds() -> list[str]: ...
def write_pcap(output: Output, path: _FilePath) -> int: ...

class LiveError(RuntimeError):
    """A live operation failed. The message contains the failed operation, the reason and a remedy."""

def run_live(
    plan: Plan,
    watch: Watch,
    *,
    seed: int | None = None,
    nearest_tcp: bool = False,
    until_done: bool = False,
    pcap: _FilePath | None = None,
    congestion_control: str | None = None,
    virtual_time: bool = False,
) -> Output: ...
def live_privileges() -> str: ...
def needs_user_namespace() -> bool: ...
def run_in_user_namespace(command: list[str]) -> int: ...
