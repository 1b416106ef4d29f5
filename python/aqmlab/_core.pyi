"""The compiled core. Text goes in, tables come out; see the modules around it for the friendly form."""

from typing import Any, final

__all__ = [
    "RESULTS_VERSION",
    "Output",
    "ScenarioError",
    "Table",
    "TraceError",
    "Watch",
    "__version__",
    "aliases",
    "catalog",
    "check",
    "check_flow_level",
    "check_trace",
    "drop_curve",
    "files_of",
    "lay_over",
    "profiles",
    "run",
    "run_flow_level",
    "run_trace",
    "table_catalog",
    "toml_to_json",
    "transport",
    "write_trace",
]

__version__: str
RESULTS_VERSION: int

class ScenarioError(ValueError):
    """Something is wrong in a scenario: a line for each mistake."""

    place: str
    problem: str
    problems: list[tuple[str, str]]

class TraceError(ValueError):
    """A file cannot be read or written, or is no trace."""

@final
class Watch:
    """How far a replay is, for another thread, which may stop it."""

    def __init__(self) -> None: ...
    def progress(self) -> tuple[int, int]: ...
    def stop(self) -> None: ...

@final
class Table:
    """A table of results: read it with `polars.DataFrame(table)`."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any: ...

@final
class Output:
    """What a run leaves behind."""

    @property
    def manifest(self) -> str: ...
    @property
    def events(self) -> int: ...
    @property
    def forwarded(self) -> int | None: ...
    def digest(self) -> str: ...
    def names(self) -> list[str]: ...
    def table(self, name: str) -> Table: ...

def toml_to_json(text: str) -> str: ...
def files_of(scenario: str) -> list[str]: ...
def check(scenario: str, files: dict[str, str]) -> tuple[str, str, list[str]]: ...
def run(scenario: str, files: dict[str, str]) -> Output: ...
def check_flow_level(scenario: str) -> tuple[str, str]: ...
def run_flow_level(scenario: str) -> Output: ...
def check_trace(scenario: str) -> tuple[str, str]: ...
def run_trace(scenario: str, watch: Watch) -> Output: ...
def write_trace(scenario: str, path: str, watch: Watch) -> str: ...
def catalog() -> str: ...
def profiles() -> str: ...
def aliases() -> str: ...
def transport(text: str) -> str: ...
def lay_over(base: str, over: str) -> str: ...
def table_catalog() -> str: ...
def drop_curve(
    queue: str, averages: list[float], relative_window: float, service_class: int = 0
) -> list[float | None]: ...
