"""Profiles of `aqmlab live shell`: the network of a kind of access."""

from __future__ import annotations

import pytest

from aqmlab import live
from aqmlab.cli import live as live_cli
from aqmlab.links import profile
from aqmlab.links.access import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_is_a_network_of_which_a_command_is_the_only_user(kind: str) -> None:
    line = profile.network(kind)
    created = live.with_command(None, ["true"], (), network=line.tables, files=line.files)
    assert list(created.workloads) == ["shell"]
    assert created.managed_links == ["bottleneck", "bottleneck-back"]
    if kind == "dsl-ptm":
        # The rate of a DSL line counts the bytes on the line.
        assert created.effective["bottleneck"]["rate"] == KINDS[kind].usual_rates[0]
    changed = live.with_command(
        None, ["true"], (), {"bottleneck.delay": "7ms"}, network=line.tables, files=line.files
    )
    assert changed.effective["bottleneck"]["delay"] == "7ms"


def test_an_unknown_profile_is_named_with_the_nearest_kind() -> None:
    with pytest.raises(ValueError, match="no kind of access is named `cabel`: did you mean cable"):
        profile.network("cabel")
    with pytest.raises(ValueError, match="--profile: describes the network, as --scenario does"):
        live_cli.shell(command=["true"], profile="cable", scenario="x.toml")  # type: ignore[arg-type]
