"""Live runs of a scenario: `aqmlab live run`. Bounds on time are wide, those on counts are not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import COMMAND, Cli
from live_rig import (
    ENDLESS,
    LINE,
    MIXED,
    NEEDED,
    PATIENCE_S,
    Packet,
    dropped,
    eventually,
    file,
    link_types,
    packets,
    run_live,
)

import aqmlab as al
from aqmlab.live import watch as live_watch

pytestmark = NEEDED


@dataclass(frozen=True)
class Mixed:
    """A live run of a scenario by the command, and the same one simulated."""

    printed: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    seen: list[Packet]
    capture: Path
    simulated: al.Run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    folder = tmp_path_factory.mktemp("mixed")
    path = file(folder, MIXED)
    words = ["live", "run", str(path), "--json", "--out", "out", "--pcap", "run.pcapng"]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=PATIENCE_S,
    )
    assert done.returncode in (0, 3), done.stderr
    tables = {found.stem: pl.read_parquet(found) for found in (folder / "out").glob("*.parquet")}
    printed = json.loads(done.stdout)
    assert (done.returncode == 0) == printed["manifest"]["live"]["valid"]
    capture = folder / "run.pcapng"
    return Mixed(printed, tables, packets(capture), capture, al.Scenario.load(path).run())


def test_the_tables_are_those_of_a_simulation(mixed: Mixed) -> None:
    assert set(mixed.tables) == set(mixed.simulated.tables)
    for name, table in mixed.tables.items():
        assert table.schema == mixed.simulated.tables[name].schema, name
    assert list(mixed.printed) == ["manifest", "summary", "performance"]
    assert set(mixed.printed["summary"]) == set(mixed.simulated.summary)
    for part in ("links", "flows", "transfers"):
        assert set(mixed.printed["summary"][part]) == set(mixed.simulated.summary[part])


def test_what_is_asked_for_is_what_a_simulation_asks_for(mixed: Mixed) -> None:
    def pages(transfers: pl.DataFrame) -> list[tuple[int, list[int]]]:
        by_page = transfers.sort("page", "size_bytes").group_by("page", maintain_order=True)
        rows = by_page.agg(pl.col("size_bytes"), pl.col("start_s").min())
        return list(zip(rows["page"].to_list(), rows["size_bytes"].to_list(), strict=True))

    simulated = pages(mixed.simulated.transfers)
    found = pages(mixed.tables["transfers"])
    # What begins in the last moment of a run may not be begun in the other, and a busy machine is late.
    both = min(len(simulated), len(found)) - 1
    assert both >= 2
    assert found[:both] == simulated[:both]
    starts = mixed.tables["transfers"].sort("start_s")["page"].to_list()
    assert starts == sorted(starts)


def test_every_packet_is_counted_once(mixed: Mixed) -> None:
    link = mixed.tables["links"].row(0, named=True)
    router = mixed.printed["manifest"]["live"]["router"]
    assert router["malformed"] == router["oversize"] == router["refused"] == 0
    assert link["drops"] == len(mixed.tables["drops"]) > 0
    assert 0 <= link["arrivals"] - link["departures"] - link["drops"] <= 21
    # At most a full queue and what fits on the line, both ways, in the smallest packets.
    assert 0 <= router["read"] - router["handed_over"] - link["drops"] <= 21 + 2 * 160


def test_a_capture_has_every_packet_and_says_what_was_dropped(mixed: Mixed) -> None:
    lost = dropped(mixed.seen)
    drops = mixed.tables["drops"]
    assert [packet.comment for packet in lost] == ["dropped: overflow, queue bottleneck"] * len(drops)
    assert [len(packet.data) for packet in lost] == drops["size_bytes"].to_list()
    router = mixed.printed["manifest"]["live"]["router"]
    assert len(mixed.seen) - len(lost) == router["handed_over"]
    for packet in mixed.seen:
        assert packet.data[0] == 0x45
        assert int.from_bytes(packet.data[2:4], "big") == len(packet.data)


def test_one_json_object_is_printed_whatever_programs_print(cli: Cli, tmp_path: Path) -> None:
    programs = '[traffic.said]\nkind = "program"\nclient = ["echo", "client"]\nserver = ["echo", "server"]\n'
    path = file(tmp_path, LINE.replace('"1500ms"', f'"{ENDLESS}"') + programs)
    done = cli("live", "run", path, "--until-done", "--json")
    assert json.loads(done.stdout)["manifest"]["live"]["statuses"] == {"said": 0}
    assert sorted(done.stderr.split()) == ["client", "server"]


def test_a_capture_that_cannot_be_written_is_named(cli: Cli, tmp_path: Path) -> None:
    for place, why in [
        ("no-such-folder/run.pcapng", "No such file or directory"),
        ("/dev/full", "No space left on device"),
    ]:
        done = cli("live", "run", file(tmp_path, MIXED), "--pcap", place)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"aqmlab: {place}: cannot be written: {why}\n"


def test_a_capture_is_read_by_tcpdump_which_wants_interfaces_of_one_kind(mixed: Mixed) -> None:
    # LINKTYPE_IPV4: tcpdump 4.99 refuses two interfaces of LINKTYPE_RAW.
    assert link_types(mixed.capture) == [228] * 4
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    read = subprocess.run(["tcpdump", "-n", "-r", mixed.capture], capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    assert len([line for line in read.stdout.splitlines() if " IP 10." in line]) == len(mixed.seen)


def seconds(text: str) -> float:
    """A length of time as manifests have it."""
    found = re.fullmatch(r"([\d.]+)([a-z]+)", text)
    assert found is not None, text
    return float(found[1]) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[found[2]]


def test_a_run_that_may_end_early_ends_when_all_has_arrived(cli: Cli, tmp_path: Path) -> None:
    text = LINE.replace('"1500ms"', f'"{ENDLESS}"') + (
        '[traffic.files]\nkind = "ftp"\nflows = 2\nsizes = { kind = "constant", value = "200kB" }\n'
        '[traffic.asked]\nkind = "probes"\nflows = 2\nsize = "5kB"\nevery = "550s"\nrequest = "200B"\n'
        '[traffic.stream]\nkind = "udp"\nrate = "100kbps"\nstop = "800ms"\n'
    )
    words = ["live", "run", str(file(tmp_path, text)), "--until-done", "--out", "out"]
    done = cli(*words, "--set", 'traffic.asked.stop="500s"')
    assert done.returncode in (0, 3), done.stderr
    manifest = json.loads((tmp_path / "out/run.json").read_text())["manifest"]
    ended = manifest["live"]["ended_s"]
    assert 0.8 <= ended < PATIENCE_S
    assert 0.99 * ended <= seconds(manifest["scenario"]["duration"]) <= 1.01 * ended
    transfers = pl.read_parquet(tmp_path / "out/transfers.parquet")
    assert transfers["complete"].all() and transfers["acknowledged_s"].is_not_null().all()
    assert len(transfers) == 4
    flows = pl.read_parquet(tmp_path / "out/flows.parquet")
    stream = flows.row(by_predicate=pl.col("traffic") == "stream", named=True)
    assert stream["datagrams_received"] + stream["packets_dropped"] == stream["packets_sent"] == 10


def test_a_run_of_programs_that_may_end_early_ends_with_the_last_client(tmp_path: Path) -> None:
    programs = "".join(
        f'[traffic.p{name}]\nkind = "program"\nclient = ["sleep", "0.{name}"]\nserver = ["sleep", "60"]\n'
        for name in (2, 6)
    )
    text = LINE.replace('"1500ms"', f'"{ENDLESS}"') + '[traffic.ftp]\nkind = "ftp"\n' + programs
    run = run_live(tmp_path, text, until_done=True)
    assert run.manifest["live"]["statuses"] == {"p2": 0, "p6": 0}
    assert 0.6 <= run.manifest["live"]["ended_s"] < PATIENCE_S
    # The transfer without an end is not waited for; a slow router may still see that its ends are closed.
    (end_s,) = run.flows.filter(pl.col("traffic") == "ftp")["end_s"]
    assert end_s is None or end_s >= 0.6


def test_a_run_is_seen_from_another_terminal_until_it_is_over(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    wait = "until [ -e enough ]; do sleep 0.1; done"
    process = command("live", "shell", "--rate", "2Mbps", "--", "sh", "-c", wait)
    eventually(lambda: process.pid in live_watch.running(), "the run can be seen")
    seen = []
    for view in live_watch.views(process.pid):
        seen.append(view)
        if len(seen) == 3:
            (tmp_path / "enough").touch()
    assert len(seen) >= 3
    times = [view["time_s"] for _, view in seen]
    assert times == sorted(times) and all(view["links"][0]["rate_bps"] == 2e6 for _, view in seen)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert process.pid not in live_watch.running()


# What cannot be run live.

TAHOE = MIXED.replace('profile = "linux-6"', 'recovery.kind = "tahoe"').replace('"1500ms"', '"1s"')
FLOW_LEVEL = (Path(__file__).parents[1] / "scenarios/flow-level/elastic.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TAHOE, r"recovery\.kind: .*tahoe"),
        (FLOW_LEVEL, "only scenarios of the level `packet` can be run live"),
        (
            LINE + "".join(f'[traffic.a{number}]\nkind = "ftp"\n' for number in range(200)),
            r"traffic: must contain at most 120 workloads in a live run \(got 200\)",
        ),
    ],
)
def test_what_cannot_be_run_live_is_refused_by_name(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    done = cli("live", "run", file(tmp_path, text))
    assert (done.returncode, done.stdout) == (2, ""), done
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.startswith("aqmlab: ") and "Traceback" not in done.stderr


CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="utf-8").split()
"""The congestion controls of this machine's kernel."""


def test_a_congestion_control_that_the_kernel_lacks_is_refused_with_those_that_it_has(
    cli: Cli, tmp_path: Path
) -> None:
    path = file(tmp_path, MIXED)
    done = cli("live", "run", path, "--congestion-control", "no-such")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"aqmlab: {path}: congestion_control: the kernel of this machine does not support `no-such`; "
        f"available: {', '.join(CONTROLS)}\n"
    )
    if "ledbat" not in CONTROLS:
        done = cli("live", "run", path, "--set", "tcp.congestion_control.kind=ledbat", "--nearest-tcp")
        assert (done.returncode, done.stdout) == (2, "")
        assert "tcp.congestion_control.kind: the kernel" in done.stderr and "`ledbat`" in done.stderr


def test_a_congestion_control_that_no_simulation_has_is_taken_from_the_kernel(
    cli: Cli, tmp_path: Path
) -> None:
    path = file(tmp_path, MIXED)
    done = cli("live", "run", path, "--set", "tcp.congestion_control.kind=bbr")
    assert done.returncode == 2
    assert "unknown kind `bbr`" in done.stderr and "--congestion-control NAME" in done.stderr
    control = next(one for one in ("bbr", "reno") if one in CONTROLS)
    run = run_live(tmp_path, MIXED, congestion_control=control)
    live_record = run.manifest["live"]
    assert live_record["congestion_control"] == control
    hosts = [
        live_record["in_force"][f"{name}-{end}"] for name in ("ftp", "web") for end in ("server", "client")
    ]
    assert [host["route"]["congctl"] for host in hosts] == [control] * 4
    assert not any("used" in objection for objection in live_record["objections"])


def test_the_nearest_tcp_is_run_and_its_differences_are_told(cli: Cli, tmp_path: Path) -> None:
    path = file(tmp_path, TAHOE)
    done = cli("live", "run", path, "--nearest-tcp")
    assert done.returncode in (0, 3), done.stderr
    assert re.search(r"the kernel's TCP differs for ftp, web: .*recovery\.kind", done.stdout)


def test_refusals_stand_below_the_name_of_the_file(cli: Cli, tmp_path: Path) -> None:
    text = LINE.replace('profile = "linux-6"', 'recovery.kind = "tahoe"') + '[traffic.ftp]\nkind = "ftp"\n'
    done = cli("live", "run", file(tmp_path, text))
    first, *rest = done.stderr.splitlines()
    assert first == f"aqmlab: {tmp_path / 'live.toml'}:"
    assert len(rest) > 1 and all(line.startswith("  tcp.") for line in rest), done.stderr
    done = cli("live", "run", file(tmp_path, MIXED), "--set", "tcp.connection.mss=9000B")
    assert done.stderr == (
        f"aqmlab: {tmp_path / 'live.toml'}: "
        "tcp.connection.mss: must be from 88B to 1448B, the MTU of 1500B without headers (got 9kB)\n"
    )


def test_options_of_virtual_time_are_refused_in_real_time(cli: Cli, tmp_path: Path) -> None:
    path = file(tmp_path, MIXED)
    for words in (("--time-limit", "5s"), ("--kernel", "linux")):
        done = cli("live", "run", path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"aqmlab: {words[0]}: needs --virtual")
