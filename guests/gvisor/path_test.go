package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
)

// link carries the packets of one direction: a Drop Tail queue, a rate and a delay.
type link struct {
	// rate is in bit/s. The rate 0 is infinite.
	rate  uint64
	delay uint64
	// limit is the maximum number of packets in the queue and the transmitter.
	limit int
	// drop is true for packets, numbered from 1, that the link drops.
	drop func(number int) bool
	// sent and dropped count packets.
	sent, dropped int
	// free is the time at which the transmitter has sent all packets in the queue.
	free uint64
	// departures contains the times at which packets leave the transmitter.
	departures []uint64
	// arrivals contains the packets on the way, the first packet first.
	arrivals []arrival
}

type arrival struct {
	at   uint64
	data datagram
}

// headers is the number of bytes that the path adds to a datagram.
const headers = 28

func (l *link) send(now uint64, data datagram) {
	l.sent++
	for len(l.departures) > 0 && l.departures[0] <= now {
		l.departures = l.departures[1:]
	}
	if l.limit > 0 && len(l.departures) >= l.limit || l.drop != nil && l.drop(l.sent) {
		l.dropped++
		return
	}
	if l.rate > 0 {
		l.free = max(l.free, now) + uint64(len(data)+headers)*8*1_000_000_000/l.rate
		l.departures = append(l.departures, l.free)
		now = l.free
	}
	l.arrivals = append(l.arrivals, arrival{now + l.delay, data})
}

// outcome is the result of a run.
type outcome struct {
	hosts    [2]*host
	digest   string
	received uint64
	// complete is the time at which the last byte of the file arrived.
	complete uint64
	// longest is the length of the longest datagram of the server.
	longest int
	// cwnd contains the windows that the server reports.
	cwnd []sample
}

// sample is a window, in packets, and the time of the report.
type sample struct {
	at   uint64
	cwnd int
}

// simulate runs a client and a server at the ends of a path: links[0] carries the packets of the client.
func simulate(t *testing.T, seed uint64, config string, links [2]*link, until uint64) outcome {
	t.Helper()
	hosts := [2]*host{{}, {}}
	var wakes [2]uint64
	for end := range hosts {
		var err error
		if wakes[end], err = hosts[end].start(endOf(end), seed+uint64(end), config); err != nil {
			t.Fatal(err)
		}
	}
	result, hash := outcome{hosts: hosts}, sha256.New()
	for {
		now := min(wakes[client], wakes[server])
		for _, link := range links {
			if len(link.arrivals) > 0 {
				now = min(now, link.arrivals[0].at)
			}
		}
		if now > until {
			break
		}
		for end, host := range hosts {
			var received []datagram
			in, out := links[1-end], links[end]
			for len(in.arrivals) > 0 && in.arrivals[0].at == now {
				received = append(received, in.arrivals[0].data)
				in.arrivals = in.arrivals[1:]
			}
			if len(received) == 0 && wakes[end] != now {
				continue
			}
			answer, err := host.run(now, received)
			if err != nil {
				t.Fatalf("end %d at %d ns: %v", end, now, err)
			}
			if wakes[end] = answer.wake; answer.wake <= now {
				t.Fatalf("end %d at %d ns: the next wake-up is at %d ns", end, now, answer.wake)
			}
			for _, datagram := range answer.datagrams {
				binary.Write(hash, binary.LittleEndian, []uint64{now, uint64(end), uint64(len(datagram))})
				if endOf(end) == server {
					result.longest = max(result.longest, len(datagram))
				}
				out.send(now, datagram)
			}
			for _, event := range answer.events {
				switch event.name {
				case "received_bytes":
					result.received += uint64(event.value)
					result.complete = now
				case "cwnd_bytes":
					result.cwnd = append(result.cwnd, sample{now, int(event.value) / segment})
				}
			}
		}
	}
	result.digest = fmt.Sprintf("%x", hash.Sum(nil))
	return result
}

func endOf(index int) end { return end(index) }
