package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// mtu is the length of the longest IP packet. On the path, the packet has 1500 bytes, because the path adds 28 bytes to
// the TCP segment.
const mtu = 1492

// segment is the maximum number of payload bytes of a segment: netstack reserves the space of all TCP options
// (Endpoint.maxOptionSize in transport/tcp/endpoint.go).
const segment = mtu - header.IPv4MinimumSize - header.TCPMinimumSize - header.TCPOptionsMaximumSize

// maxDatagrams is the maximum number of datagrams in an answer, which the contract defines.
const maxDatagrams = 10_000

// block is the number of bytes that the server passes to netstack at once.
const block = 65_536

// backlog is the capacity of the server's accept queue. With a capacity of 1, netstack would answer the SYN with a SYN
// cookie, without window scaling and SACK (Endpoint.handleListenSegment in transport/tcp/accept.go).
const backlog = 2

const nic = 1

// The addresses and ports of both ends. The path does not use addresses. The client has the first dynamic port of RFC
// 6335.
var (
	addresses = [2]tcpip.Address{tcpip.AddrFrom4([4]byte{10, 0, 0, 1}), tcpip.AddrFrom4([4]byte{10, 0, 0, 2})}
	ports     = [2]uint16{49_152, 443}
)

// host is one end of a TCP connection. Netstack processes segments in a goroutine of its own. After each packet, timer
// and call, the host waits until this goroutine has nothing left to do (settle). Therefore, netstack's behaviour does not
// depend on the scheduler of Go.
type host struct {
	end   end
	clock *clock
	stack *stack.Stack
	link  *channel.Endpoint
	// socket is the client's socket, or the server's listening socket until the connection is open.
	socket tcpip.Endpoint
	isOpen bool
	// left is the number of bytes that the server has not yet passed to netstack.
	left uint64
	// isClosed is true if this end closed its direction of the connection.
	isClosed bool
	cwnd     uint32
	rtt      time.Duration
}

func (h *host) start(end end, seed uint64, text string) (uint64, error) {
	config, err := readConfig(text)
	if err != nil {
		return never, err
	}
	h.end, h.left = end, config.size
	h.clock = &clock{}
	// Netstack derives all random numbers from this generator. The host and netstack's goroutine never use the generator at
	// the same time.
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	h.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		Clock:              h.clock,
		SecureRNG:          rand.NewChaCha8(key),
	})
	h.link = channel.New(maxDatagrams, mtu, "")
	if err := h.stack.CreateNIC(nic, h.link); err != nil {
		return never, problem("CreateNIC", err)
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: addresses[end].WithPrefix()}
	if err := h.stack.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
		return never, problem("AddProtocolAddress", err)
	}
	h.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	control := tcpip.CongestionControlOption(config.control)
	if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &control); err != nil {
		return never, problem("congestion control", err)
	}
	if !config.rack {
		recovery := tcpip.TCPRecovery(0)
		if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &recovery); err != nil {
			return never, problem("loss recovery", err)
		}
	}
	socket, tcpErr := h.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &waiter.Queue{})
	if tcpErr != nil {
		return never, problem("NewEndpoint", tcpErr)
	}
	h.socket = socket
	if err := socket.Bind(tcpip.FullAddress{Addr: addresses[end], Port: ports[end]}); err != nil {
		return never, problem("Bind", err)
	}
	if end == client {
		return 0, nil
	}
	if err := socket.Listen(backlog); err != nil {
		return never, problem("Listen", err)
	}
	return never, nil
}

func (h *host) run(now uint64, received []datagram) (answer, error) {
	if h.stack == nil {
		return answer{}, errors.New("the guest must be started before it runs")
	}
	h.clock.advance(time.Duration(now))
	var bytes uint64
	transfer := func() error {
		for {
			passed, err := h.transfer()
			h.settle()
			bytes += passed
			if passed == 0 || err != nil {
				return err
			}
		}
	}
	if err := h.open(); err != nil {
		return answer{}, err
	}
	for _, segment := range received {
		h.receive(segment)
		h.settle()
		if err := transfer(); err != nil {
			return answer{}, err
		}
	}
	for h.clock.runDue() {
		h.settle()
		if err := transfer(); err != nil {
			return answer{}, err
		}
	}
	return answer{datagrams: h.sent(), wake: h.wake(), events: h.events(bytes)}, nil
}

// settle returns when netstack's goroutine has processed all segments. Pause waits until the goroutine's queue is empty
// and the goroutine waits for Resume (processor.start in transport/tcp/dispatcher.go).
func (h *host) settle() {
	h.stack.Pause()
	h.stack.Resume()
}

// open begins the client's connection in the client's first run, or accepts the connection at the server.
func (h *host) open() error {
	if h.isOpen || h.end == server {
		return nil
	}
	h.isOpen = true
	err := h.socket.Connect(tcpip.FullAddress{Addr: addresses[server], Port: ports[server]})
	if _, ok := err.(*tcpip.ErrConnectStarted); !ok {
		return problem("Connect", err)
	}
	h.settle()
	return nil
}

// receive passes a TCP segment to netstack, with the IP header that the sender removed.
func (h *host) receive(segment datagram) {
	packet := make([]byte, header.IPv4MinimumSize+len(segment))
	copy(packet[header.IPv4MinimumSize:], segment)
	ip := header.IPv4(packet)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(packet)),
		TTL:         ipv4.DefaultTTL,
		Protocol:    uint8(tcp.ProtocolNumber),
		SrcAddr:     addresses[1-h.end],
		DstAddr:     addresses[h.end],
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	buffer := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	defer buffer.DecRef()
	h.link.InjectInbound(ipv4.ProtocolNumber, buffer)
}

// sent returns the TCP segments that netstack sends. Netstack writes IP headers without options.
func (h *host) sent() []datagram {
	var segments []datagram
	for {
		packet := h.link.Read()
		if packet == nil {
			return segments
		}
		segments = append(segments, packet.ToView().ToSlice()[header.IPv4MinimumSize:])
		packet.DecRef()
	}
}

// transfer passes a part of the file from the application to netstack, or from netstack to the application, and closes
// the connection at the end of the file. transfer returns the number of bytes, which is 0 if the application must wait.
func (h *host) transfer() (uint64, error) {
	if h.isClosed {
		return 0, nil
	}
	if h.end == client {
		return h.read()
	}
	if !h.isOpen {
		socket, _, err := h.socket.Accept(nil)
		if _, ok := err.(*tcpip.ErrWouldBlock); ok {
			return 0, nil
		} else if err != nil {
			return 0, problem("Accept", err)
		}
		h.socket, h.isOpen = socket, true
	}
	return h.write()
}

// zeros are the contents of the file.
var zeros [block]byte

func (h *host) write() (uint64, error) {
	written, err := h.socket.Write(bytes.NewReader(zeros[:min(h.left, block)]), tcpip.WriteOptions{})
	if _, ok := err.(*tcpip.ErrWouldBlock); err != nil && !ok {
		return 0, problem("Write", err)
	}
	h.left -= uint64(written)
	if h.left == 0 {
		return uint64(written), h.close()
	}
	return uint64(written), nil
}

func (h *host) read() (uint64, error) {
	result, err := h.socket.Read(io.Discard, tcpip.ReadOptions{})
	switch err.(type) {
	case nil:
		// The receive buffer grows with the rate at which the application reads, as for the sockets of gVisor.
		h.socket.ModerateRecvBuf(result.Count)
		return uint64(result.Count), nil
	case *tcpip.ErrWouldBlock, *tcpip.ErrNotConnected:
		return 0, nil
	case *tcpip.ErrClosedForReceive:
		return 0, h.close()
	default:
		return 0, problem("Read", err)
	}
}

func (h *host) close() error {
	h.isClosed = true
	if err := h.socket.Shutdown(tcpip.ShutdownWrite); err != nil {
		return problem("Shutdown", err)
	}
	return nil
}

// wake returns the time of netstack's next timer.
func (h *host) wake() uint64 {
	if next, ok := h.clock.next(); ok {
		return uint64(next)
	}
	return never
}

// events returns the values of the client or of the server that changed.
func (h *host) events(bytes uint64) []event {
	var events []event
	if h.end == client {
		if bytes > 0 {
			events = append(events, event{"received_bytes", float64(bytes)})
		}
		return events
	}
	var info tcpip.TCPInfoOption
	if err := h.socket.GetSockOpt(&info); err != nil || !h.isOpen {
		return nil
	}
	if info.SndCwnd != h.cwnd {
		h.cwnd = info.SndCwnd
		events = append(events, event{"cwnd_bytes", float64(info.SndCwnd) * segment})
	}
	if info.RTT != h.rtt {
		h.rtt = info.RTT
		events = append(events, event{"rtt_s", info.RTT.Seconds()})
	}
	return events
}

// problem returns an error of netstack as an error of Go.
func problem(operation string, err tcpip.Error) error {
	return fmt.Errorf("netstack: %s: %v", operation, err)
}
