package main

import (
	"fmt"
	"runtime"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// second is a second in nanoseconds.
const second = 1_000_000_000

// transfer sends a file of 1 MB over a path that drops every hundredth packet of each direction.
func transfer(t *testing.T, control string, seed uint64) outcome {
	t.Helper()
	drop := func(number int) bool { return number%100 == 0 }
	links := [2]*link{
		{rate: 10_000_000, delay: second / 50, drop: drop},
		{rate: 10_000_000, delay: second / 50, limit: 50, drop: drop},
	}
	return simulate(t, seed, fmt.Sprintf(`{"control": "%s"}`, control), links, 200*second)
}

func TestTwoRunsWithTheSameSeedAreEqualWithEachControl(t *testing.T) {
	for _, control := range []string{"reno", "cubic"} {
		first := transfer(t, control, 1)
		if first.received != defaults.size || first.complete > 5*second {
			t.Errorf("%s: %d bytes after %d ns", control, first.received, first.complete)
		}
		if longest := header.TCPMinimumSize + 12 + segment; first.longest != longest {
			t.Errorf("%s: the longest segment has %d bytes (expected %d with timestamps)", control, first.longest, longest)
		}
		// The number of netstack's goroutines and their order must not influence the run.
		for _, processors := range []int{1, 2, 8} {
			previous := runtime.GOMAXPROCS(processors)
			for range 5 {
				if second := transfer(t, control, 1); second.digest != first.digest {
					t.Errorf("%s: the digest with %d processors is different", control, processors)
				}
			}
			runtime.GOMAXPROCS(previous)
		}
	}
}

func TestTimesAndLengthsDoNotDependOnTheSeed(t *testing.T) {
	if first, second := transfer(t, "reno", 1), transfer(t, "reno", 5); first.digest != second.digest {
		t.Error("the digests are different")
	}
}

func TestBothEndsCloseTheConnection(t *testing.T) {
	run := transfer(t, "cubic", 1)
	for end, host := range run.hosts {
		var info tcpip.TCPInfoOption
		if err := host.socket.GetSockOpt(&info); err != nil {
			t.Fatal(err)
		}
		if state := tcp.EndpointState(info.State); state != tcp.StateClose || host.wake() != never {
			t.Errorf("end %d is in state %v, and wakes up at %d ns", end, state, host.wake())
		}
	}
}

func TestServerReportsTheWindowInBytes(t *testing.T) {
	run := transfer(t, "cubic", 1)
	if first := run.cwnd[0].cwnd; first != 10 {
		t.Errorf("the first window is %d segments (expected 10)", first)
	}
	if events := run.hosts[server].events(0); len(events) != 0 {
		t.Errorf("the values did not change, but %v are reported", events)
	}
}

func TestConnectionUsesWindowScalingAndSACK(t *testing.T) {
	ends := [2]*host{{}, {}}
	for end, host := range ends {
		if _, err := host.start(endOf(end), 1, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	syn, err := ends[client].run(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	synAck, err := ends[server].run(1, syn.datagrams)
	if err != nil || len(synAck.datagrams) != 1 {
		t.Fatal(err, len(synAck.datagrams))
	}
	options := header.ParseSynOptions(header.TCP(synAck.datagrams[0]).Options(), true)
	if options.WS < 1 || !options.SACKPermitted || !options.TS || options.MSS != mtu-40 {
		t.Errorf("the SYN-ACK has the options %+v", options)
	}
}

func TestGuestMustBeStarted(t *testing.T) {
	if _, err := (&host{}).run(0, nil); err == nil {
		t.Error("no error")
	}
}
