"""The command line as a user types it: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from conftest import COMMAND, PATIENCE_S, Cli

import aqmlab as al
from aqmlab.cli.command_help import ORDER


def test_run_prints_what_happened_in_a_few_lines(cli: Cli, small: Path) -> None:
    done = cli("run", small)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "small: 12s of which 2s warm-up, seed 3"
    assert lines[1].startswith("  link bottleneck: utilisation ")
    assert any(line.startswith("  flows ftp: 3, goodput ") for line in lines)
    assert any(line.startswith("  transfers web: ") for line in lines)
    repaired = r"    loss recovery: \d+ segments retransmitted, \d+ time-outs, \d+ fast retransmits"
    assert sum(re.fullmatch(repaired, line) is not None for line in lines) == 2
    assert "million bottleneck packets per CPU s" in lines[-1]
    assert len(lines) < 10


def test_run_json_has_the_promised_shape(cli: Cli, small: Path) -> None:
    done = cli("run", small, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["manifest", "summary", "performance"]
    assert found["manifest"]["scenario"] == al.Scenario.load(small).effective
    assert found["manifest"]["seed"] == 3
    assert found["manifest"]["version"] == al.__version__
    assert found["manifest"]["digest"] == al.Scenario.load(small).digest
    summary = found["summary"]
    assert set(summary) >= {"links", "flows", "transfers"}
    assert set(summary["links"]) == {"bottleneck"}
    assert set(summary["links"]["bottleneck"]) >= {
        "utilisation",
        "drop_fraction",
        "mark_fraction",
        "mean_queue_packets",
        "mean_queue_delay_s",
    }
    assert set(summary["flows"]) == {"ftp", "web"}
    assert set(summary["flows"]["ftp"]) >= {"count", "goodput_bps", "jain", "drop_fraction", "timeouts"}
    assert set(summary["transfers"]) == {"web"}
    assert set(summary["transfers"]["web"]) >= {
        "count",
        "unfinished",
        "mean_active",
        "mean_s",
        "p50_s",
        "p90_s",
        "p99_s",
    }
    assert set(found["performance"]) >= {"packets_forwarded", "events", "cpu_s"}
    link = summary["links"]["bottleneck"]
    assert 0.5 < link["utilisation"] <= 1.001
    assert 0 < link["drop_fraction"] < 0.3
    times = summary["transfers"]["web"]
    assert 0 < times["p50_s"] <= times["p90_s"] <= times["p99_s"]
    assert 1 / 3 <= summary["flows"]["ftp"]["jain"] <= 1


def test_run_takes_a_seed_and_settings(cli: Cli, small: Path) -> None:
    settings = ["bottleneck.queue.max_p=0.2", "tcp.profile=ns-2.35", "bottleneck.delay=40ms"]
    typed = [word for setting in settings for word in ("--set", setting)]
    done = cli("run", small, "--json", "--seed", "8", *typed)
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)["manifest"]
    assert manifest["seed"] == manifest["scenario"]["seed"] == 8
    assert manifest["scenario"]["bottleneck"]["queue"]["max_p"] == 0.2
    assert manifest["scenario"]["bottleneck"]["delay"] == "40ms"
    assert manifest["scenario"]["tcp"]["rto"]["arithmetic"] == "ticks"


def test_run_is_the_run_of_the_library(cli: Cli, small: Path) -> None:
    found = json.loads(cli("run", small, "--json", "--seed", "5").stdout)
    run = al.Scenario.load(small).run(seed=5)
    assert found["manifest"]["tables_digest"] == run.tables_digest
    assert found["summary"] == run.summary


def test_run_reverses_ties_when_asked(cli: Cli, small: Path) -> None:
    found = json.loads(cli("run", small, "--json", "--set", "reverse_ties=true").stdout)
    assert found["manifest"]["scenario"]["reverse_ties"] is True


def test_run_writes_every_table_and_the_manifest(cli: Cli, small: Path, tmp_path: Path) -> None:
    done = cli("run", small, "--out", tmp_path / "deep" / "folder")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "deep" / "folder"
    run = al.Scenario.load(small).run()
    assert {path.name for path in out.iterdir()} == {f"{name}.parquet" for name in run.tables} | {"run.json"}
    assert pl.read_parquet(out / "transfers.parquet").equals(run.transfers)
    assert json.loads((out / "run.json").read_text())["manifest"]["tables_digest"] == run.tables_digest


@pytest.mark.parametrize("profile", ["rfc", "ns-2.35"])
def test_what_check_prints_is_the_same_scenario(cli: Cli, small: Path, profile: str) -> None:
    done = cli("check", small, "--set", f"tcp.profile={profile}")
    assert done.returncode == 0, done.stderr
    again = al.Scenario.from_dict(tomllib.loads(done.stdout))
    assert again.digest == al.Scenario.load(small).with_({"tcp.profile": profile}).digest


def test_show_and_list_answer(cli: Cli) -> None:
    shown = cli("show", "red")
    assert shown.returncode == 0, shown.stderr
    assert "max_p = 0.1" in shown.stdout
    assert "source: " in shown.stdout
    listed = cli("list", "queues")
    assert {"drop-tail", "red", "shred", "self-configuring-red"} <= {
        line.split()[0] for line in listed.stdout.splitlines()
    }
    for wrong, part in [("show shed", "shred"), ("list cats", "queues"), ("show xyzzy", "red")]:
        done = cli(*wrong.split())
        assert done.returncode == 2
        assert part in done.stderr
        assert "Traceback" not in done.stderr


def test_help_lists_commands_from_one_run_to_many(cli: Cli) -> None:
    listed = cli("--help").stdout.partition("Commands:")[2]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names == list(ORDER)


def test_help_has_a_short_form_and_completion_can_be_installed(cli: Cli) -> None:
    for command in ([], ["run"], ["sweep", "run"], ["new", "queue"]):
        assert cli(*command, "-h").stdout == cli(*command, "--help").stdout != ""
    assert "--install-completion" in cli("-h").stdout


def test_help_and_version_answer(cli: Cli) -> None:
    assert cli("--version").stdout == f"aqmlab {al.__version__}\n"
    for command in ([], ["run"], ["compare"], ["check"], ["list"], ["show"], ["study"], ["study", "run"]):
        done = cli(*command, "--help")
        assert done.returncode == 0
        assert "Usage" in done.stdout


def test_compare_prints_a_table_and_writes_plots_and_numbers(cli: Cli, small: Path, tmp_path: Path) -> None:
    words = ["--queues", "drop-tail,short,shred", "--replications", "3", "--out", "here", "--parameters"]
    done = cli("compare", small, *words)
    assert done.returncode == 0, done.stderr
    for part in (
        "3 replications",
        "Paired differences from drop-tail",
        "utilisation",
        "±",
        "drop-tail",
        "short",
        "5p",
        "225p",
        "web time, mean",
    ):
        assert part in done.stdout, part
    here = tmp_path / "here"
    assert {"intervals.csv", "values.csv", "cdf-web.png", "cdf-web.csv", "cdf-web.svg"} <= {
        path.name for path in here.iterdir()
    }
    assert (here / "cdf-web.png").read_bytes().startswith(b"\x89PNG")
    intervals = pl.read_csv(here / "intervals.csv")
    assert set(intervals["queue"]) == {"drop-tail", "short", "shred"}
    assert set(intervals["replications"]) == {3}
    assert (intervals["low"] <= intervals["mean"]).all()
    assert done.stderr == ""


def test_compare_takes_tcps_and_pairs_them_with_queues(cli: Cli, small: Path, tmp_path: Path) -> None:
    words = ["--tcp", "reno/newreno, cubic/sack", "--replications", "2", "--out", "here", "--parameters"]
    done = cli("compare", small, *words)
    assert done.returncode == 0, done.stderr
    for part in ("reno/newreno", "cubic/sack", "tcp.recovery.kind", "tcp.congestion_control.kind"):
        assert part in done.stdout, part
    assert "Paired differences from reno/newreno" in done.stdout
    assert "initial_after_syn_loss" not in done.stdout, "only parameters that differ are shown"
    assert set(pl.read_csv(tmp_path / "here/differences.csv")["tcp"]) == {"cubic/sack"}
    done = cli("compare", small, "--queues", "red,short", *words)
    assert done.returncode == 0, done.stderr
    assert "differences from red, reno/newreno" in done.stdout
    intervals = pl.read_csv(tmp_path / "here/intervals.csv")
    assert intervals.select("queue", "tcp").unique().height == 4


def test_compare_refuses_tcps_with_the_reason(cli: Cli, small: Path, tmp_path: Path) -> None:
    for words, part in [
        (["--tcp", "cubic/tahoe"], "tcp.recovery.kind: must not be tahoe"),
        (["--tcp", "cubc"], "`cubic`"),
        (["--tcp", "reno/fack"], "`fack`"),
        ([], "--queues, --tcp: must name at least one"),
        (["--tcp", ","], "--queues, --tcp: must name at least one"),
    ]:
        done = cli("compare", small, *words)
        assert done.returncode == 2, words
        assert part in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_compare_prints_json_when_asked(cli: Cli, small: Path) -> None:
    done = cli("compare", small, "--queues", "red,short", "--replications", "2", "--json", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["queues"]["short"] == {"kind": "drop-tail", "admits": "what-fits", "limit": "5p"}
    assert found["queues"]["red"]["gentle"] is True
    assert found["tcps"] == {}
    assert found["replications"] == 2
    assert {row["queue"] for row in found["differences"]} == {"short"}
    assert found["failures"] == []


def test_compare_draws_intervals_in_the_pictures_that_are_wanted(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    words = ["--queues", "red,short", "--replications", "2", "--out", "here", "--pictures", "pdf"]
    done = cli("compare", small, *words, "--chart", "web time, mean", "--width", "3.5in")
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in (tmp_path / "here").iterdir()}
    assert {"intervals-web-time-mean.pdf", "intervals-web-time-mean.csv", "cdf-web.pdf"} <= drawn
    assert not any(name.endswith((".png", ".svg")) for name in drawn)
    assert "limit" not in done.stdout, "parameters are printed with --parameters only"
    for wrong, part in (
        (["--chart", "web tim, mean"], "did you mean web time, mean"),
        (["--pictures", "gif"], "--pictures: no format is named `gif`"),
        (["--width", "3"], "--width: must be a number with the unit in"),
        (["--at", "bottlenek"], "did you mean bottleneck"),
        (["--queues", "red,codle"], "no queue is named `codle`: did you mean codel"),
    ):
        done = cli("compare", small, "--queues", "red", "--out", "other", *wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert part in done.stderr, done.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("markdown", ["| quantity | red | short |", "| --- | ---: | ---: |", "| utilisation (%) | "]),
        ("latex", [r"\begin{tabular}{lrr}", r"quantity & red & short \\", r"utilisation (\%) & ", r"$\pm$"]),
    ],
)
def test_compare_prints_tables_for_papers_and_pages(
    form: str, parts: list[str], cli: Cli, small: Path
) -> None:
    done = cli("compare", small, "--queues", "red,short", "--replications", "2", "--table", form)
    assert done.returncode == 0, done.stderr
    for part in parts:
        assert part in done.stdout
    assert "Plots and numbers" not in done.stdout, "what is printed is the table alone"


def test_compare_says_at_which_links_queues_are_replaced(cli: Cli, tmp_path: Path) -> None:
    link = 'delay = "5ms"\nqueue = { kind = "red" }\n'
    scenario = tmp_path / "two.toml"
    scenario.write_text(
        f'duration = "3s"\n[links.up]\nfrom = "a"\nto = "b"\nrate = "1Mbps"\n{link}'
        f'[links.down]\nfrom = "b"\nto = "a"\nrate = "4Mbps"\n{link}'
        '[traffic.files]\nkind = "ftp"\nfrom = "a"\nto = "b"\n'
    )
    words = ["compare", scenario, "--queues", "codel", "--replications", "1"]
    done = cli(*words)
    assert "Queues replaced at down, up (every managed link; select links with --at LINK)" in done.stdout
    assert "links of different rates (down 4Mbps, up 1Mbps)" in done.stderr
    done = cli(*words, "--at", "up")
    assert "Queues replaced at up (unchanged: down)" in done.stdout
    assert done.stderr == ""
    assert json.loads(cli(*words, "--at", "up", "--json").stdout)["at"] == ["up"]
    done = cli("plot", "queue-delay", scenario, "--queues", "codel", "--out", "delay.pdf")
    assert "Queues replaced at down, up (every managed link" in done.stdout
    assert (tmp_path / "delay.pdf").read_bytes().startswith(b"%PDF-")
    done = cli("plot", "queue-delay", scenario, "--queues", "codel", "--at", "up", "--out", "delay.svg")
    assert "Queues replaced at up (unchanged: down)" in done.stdout
    done = cli("sweep", "run", scenario, "queue=codel,red", "--replications", "1", "--dry-run")
    assert "the axis queue replaces the queues of down, up; an axis such as links.down.queue" in done.stderr


def test_output_can_be_cut_off(small: Path, tmp_path: Path) -> None:
    for arguments in (["run", str(small), "--json"], ["check", str(small)], ["show", "tcp"]):
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        process.wait(timeout=PATIENCE_S)
        assert said == b"", arguments


def test_a_closed_pipe_is_no_error(small: Path, tmp_path: Path) -> None:
    script = f'"{sys.executable}" -c "{COMMAND}" show tcp | head -1'
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S
    )
    assert done.stdout == "tcp (TCP)\n"
    assert done.stderr == ""


LOUD = """
import os
from aqmlab.scenario import Scenario

quiet = Scenario.run


def run(self, seed=None, *, watch=None):
    done = quiet(self, seed, watch=watch)
    os.write(2, b"a run is done\\n")  # One piece, whatever other threads write.
    return done


Scenario.run = run
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_control_c_keeps_finished_runs_and_says_so(small: Path, tmp_path: Path) -> None:
    arguments = ["compare", str(small), "--queues", "red,short", "--replications", "3000"]
    process = subprocess.Popen(
        [sys.executable, "-c", LOUD + COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    assert process.stderr is not None
    for _ in range(20):
        assert process.stderr.readline() == "a run is done\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "aqmlab: interrupted" in err
    assert "Traceback" not in err
    assert "utilisation" in out
    assert (tmp_path / "out" / "compare" / "values.csv").exists()


def test_a_doubtful_tree_of_classes_is_warned_about_and_runs(cli: Cli, tmp_path: Path) -> None:
    scenario = tmp_path / "doubtful.toml"
    scenario.write_text(
        'duration = "2s"\n[traffic.ftp]\nkind = "ftp"\n[bottleneck]\nrate = "1Mbps"\n'
        '[bottleneck.queue]\nkind = "htb"\nclasses.all = { rate = "2Mbps" }\n'
    )
    done = cli("run", str(scenario))
    assert done.returncode == 0
    assert "bottleneck.queue.classes.all.rate: exceeds the link rate of 1Mbps" in done.stderr
    assert "class all: " in done.stdout
