package main

import (
	"fmt"
	"testing"
)

// The tests of this file show the properties of netstack that docs/guides/gvisor-guest.md lists. If a test fails after an
// update of netstack, the page must be changed too.

// overshoot sends a file of 5 MB at 10 Mb/s and 40 ms through a queue of 50 packets.
func overshoot(t *testing.T, config string) (outcome, *link) {
	t.Helper()
	forward := &link{rate: 10_000_000, delay: second / 50, limit: 50}
	run := simulate(t, 1, config, [2]*link{{delay: second / 50}, forward}, 100*second)
	t.Logf("%s: %d bytes after %.2f s, %d packets, %d dropped", config, run.received, float64(run.complete)/second,
		forward.sent, forward.dropped)
	if run.received != 5_000_000 {
		t.Errorf("%s: %d bytes", config, run.received)
	}
	return run, forward
}

func TestRenoGrowsByOnePacketOnEachAcknowledgement(t *testing.T) {
	run, forward := overshoot(t, `{"control": "reno", "size": 5000000}`)
	if forward.dropped < forward.sent/4 {
		t.Errorf("%d of %d packets are dropped", forward.dropped, forward.sent)
	}
	// After the first recovery, the window grows by 100 packets within 300 ms. In congestion avoidance (RFC 5681, section
	// 3.1), the window would grow by one packet per round-trip time of at least 40 ms.
	var reduced *sample
	for i := range run.cwnd {
		now := &run.cwnd[i]
		if i > 0 && now.cwnd < run.cwnd[i-1].cwnd {
			reduced = now
		} else if reduced != nil && now.cwnd >= reduced.cwnd+100 {
			if now.at-reduced.at > 3*second/10 {
				t.Errorf("the window grew from %+v to %+v", *reduced, *now)
			}
			return
		}
	}
	t.Error("the window did not grow by 100 packets")
}

func TestRecoveryWithoutRACKDropsFewerPackets(t *testing.T) {
	_, with := overshoot(t, `{"control": "reno", "size": 5000000, "rack": true}`)
	_, without := overshoot(t, `{"control": "reno", "size": 5000000, "rack": false}`)
	if without.dropped >= with.dropped {
		t.Errorf("%d packets are dropped with RACK, and %d without RACK", with.dropped, without.dropped)
	}
}

func TestCubicWindowIsConstantAfterAReduction(t *testing.T) {
	forward := &link{rate: 10_000_000, delay: second / 50, limit: 33}
	links := [2]*link{{delay: second / 50}, forward}
	run := simulate(t, 1, fmt.Sprintf(`{"control": "cubic", "size": %d}`, 40_000_000), links, 30*second)
	constant := 0
	for i := 1; i < len(run.cwnd); i++ {
		before, after := run.cwnd[i-1], run.cwnd[i]
		if after.at-before.at > second && after.cwnd >= before.cwnd+10 {
			t.Logf("the window is %d packets from %.2f s to %.2f s, and then %d packets", before.cwnd,
				float64(before.at)/second, float64(after.at)/second, after.cwnd)
			constant++
		}
	}
	if constant < 2 {
		t.Errorf("the window is constant %d times", constant)
	}
}
