// Program realtime sends a file between two instances of netstack in real time, through a Drop Tail queue, and counts
// the growth of the congestion window. The program uses netstack's own clock and sockets, and no part of the guest.
// Therefore, the program is a second source for the properties of netstack that docs/guides/gvisor-guest.md lists:
//
//	go run ./realtime -control reno -size 5000000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const mtu = 1500

func main() {
	control := flag.String("control", "reno", "congestion control: reno or cubic")
	size := flag.Int("size", 5_000_000, "bytes of the file")
	rate := flag.Float64("rate", 10e6, "rate of the bottleneck in bit/s")
	delay := flag.Duration("delay", 20*time.Millisecond, "delay of each direction")
	limit := flag.Int("limit", 50, "packets in the queue of the bottleneck")
	rack := flag.Bool("rack", true, "whether netstack uses RACK (otherwise, RFC 6675)")
	flag.Parse()

	growth := &growth{}
	client, clientLink := newStack(1, tcp.NewProtocol)
	server, serverLink := newStack(2, tcp.NewProtocolProbe(growth.onSegment))
	growth.clock = server.Clock()
	name := tcpip.CongestionControlOption(*control)
	if err := server.SetTransportProtocolOption(tcp.ProtocolNumber, &name); err != nil {
		log.Fatal("-control: ", err)
	}
	if !*rack {
		recovery := tcpip.TCPRecovery(0)
		server.SetTransportProtocolOption(tcp.ProtocolNumber, &recovery)
	}
	forward := &link{from: serverLink, to: clientLink, rate: *rate, delay: *delay, limit: *limit}
	reverse := &link{from: clientLink, to: serverLink, rate: math.Inf(1), delay: *delay, limit: math.MaxInt}
	go forward.run()
	go reverse.run()

	address := tcpip.FullAddress{NIC: 1, Addr: address(2), Port: 443}
	listener, err := gonet.ListenTCP(server, address, ipv4.ProtocolNumber)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		connection.Write(make([]byte, *size))
		connection.Close()
	}()
	start := time.Now()
	connection, err := gonet.DialTCP(client, address, ipv4.ProtocolNumber)
	if err != nil {
		log.Fatal(err)
	}
	received, err := io.Copy(io.Discard, connection)
	elapsed := time.Since(start)
	fmt.Printf("%s: %d bytes in %.2f s, %.2f Mb/s (error: %v)\n", *control, received, elapsed.Seconds(),
		float64(received)*8e-6/elapsed.Seconds(), err)
	fmt.Printf("packets: %d sent, %d dropped, %d retransmitted, %d timeouts\n", forward.sent, forward.dropped,
		server.Stats().TCP.Retransmits.Value(), server.Stats().TCP.Timeouts.Value())
	fmt.Printf("congestion avoidance: on %d acknowledgements, the window grew by %d packets; ",
		growth.acknowledgements, growth.packets)
	fmt.Printf("the increments of the RFC sum to %.0f packets\n", growth.expected)
}

func address(last byte) tcpip.Address { return tcpip.AddrFrom4([4]byte{10, 0, 0, last}) }

func newStack(last byte, protocol stack.TransportProtocolFactory) (*stack.Stack, *channel.Endpoint) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{protocol},
	})
	link := channel.New(10_000, mtu, "")
	if err := s.CreateNIC(1, link); err != nil {
		log.Fatal(err)
	}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address(last).WithPrefix()}
	if err := s.AddProtocolAddress(1, own, stack.AddressProperties{}); err != nil {
		log.Fatal(err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	return s, link
}

// link is a Drop Tail queue, a rate in bit/s and a delay.
type link struct {
	from, to      *channel.Endpoint
	rate          float64
	delay         time.Duration
	limit         int
	sent, dropped int
}

func (l *link) run() {
	type arrival struct {
		at     time.Time
		packet []byte
	}
	arrivals := make(chan arrival, 100_000)
	go func() {
		for arrival := range arrivals {
			time.Sleep(time.Until(arrival.at))
			packet := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(arrival.packet)})
			l.to.InjectInbound(ipv4.ProtocolNumber, packet)
			packet.DecRef()
		}
	}()
	var free time.Time
	var departures []time.Time
	for {
		buffer := l.from.ReadContext(context.Background())
		packet, now := buffer.ToView().ToSlice(), time.Now()
		buffer.DecRef()
		l.sent++
		for len(departures) > 0 && !departures[0].After(now) {
			departures = departures[1:]
		}
		if len(departures) >= l.limit {
			l.dropped++
			continue
		}
		if free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(len(packet)*8) / l.rate * float64(time.Second)))
		departures = append(departures, free)
		arrivals <- arrival{free.Add(l.delay), packet}
	}
}

// growth compares the growth of the window in congestion avoidance with the increments that the RFC requires at the
// windows of the sender.
type growth struct {
	clock            tcpip.Clock
	last             tcp.TCPSenderState
	acknowledgements int
	packets          int
	expected         float64
}

// onSegment receives the state of the sender after each segment.
func (g *growth) onSegment(state *tcp.TCPEndpointState) {
	last, now := &g.last, &state.Sender
	acked := float64(last.SndUna.Size(now.SndUna)) / float64(now.MaxPayloadSize)
	// CUBIC's window follows another equation in the Reno-friendly region, which is not examined.
	isRenoFriendly := now.Cubic.WC < now.Cubic.WEst
	isAvoidance := !last.FastRecovery.Active && !now.FastRecovery.Active && last.SndCwnd >= last.Ssthresh
	if isAvoidance && !isRenoFriendly && last.Ssthresh == now.Ssthresh && now.SndUna != last.SndUna && now.SndCwnd >= last.SndCwnd {
		g.acknowledgements++
		g.packets += now.SndCwnd - last.SndCwnd
		cwnd := float64(last.SndCwnd)
		if c := now.Cubic; c.C > 0 {
			// RFC 9438, sections 4.2, 4.4 and 4.5.
			t := (g.clock.NowMonotonic().Sub(c.T) + now.RTTState.SRTT).Seconds() - c.K
			target := min(max(c.C*t*t*t+c.WMax, cwnd), 1.5*cwnd)
			g.expected += acked * (target - cwnd) / cwnd
		} else {
			// RFC 5681, section 3.1, equation 3.
			g.expected += acked / cwnd
		}
	}
	g.last = *now
}
