package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// contractVersion is the version of the contract of docs/guides/guests.md.
const contractVersion = 1

// never is the time of a wake-up that does not occur.
const never = math.MaxUint64

// maxBody is the maximum length of a body in bytes, which is the limit of aqmlab (crates/aqm-guest/src/frames.rs).
const maxBody = 1 << 30

// The kinds of frames.
const (
	kindStart   = 1
	kindRun     = 2
	kindStop    = 3
	kindStarted = 129
	kindAnswer  = 130
	kindStopped = 131
	kindError   = 255
)

// end is an end of the path.
type end byte

const (
	client end = 0
	server end = 1
)

// datagram is the contents of a UDP datagram. The guest has one flow, number 0, and all packets are Not-ECT.
type datagram []byte

// event is a value that the guest reports.
type event struct {
	name  string
	value float64
}

// answer is the answer to a request to run. A time is a number of nanoseconds.
type answer struct {
	datagrams []datagram
	wake      uint64
	events    []event
}

// guest is an implementation of the contract.
type guest interface {
	// start prepares one end of the path, and returns the time of the first wake-up.
	start(end end, seed uint64, config string) (uint64, error)
	// run processes the datagrams that arrive at the time now.
	run(now uint64, received []datagram) (answer, error)
}

// serve passes the requests of the input to the guest and writes the answers to the output, until the guest is stopped
// or the input ends.
func serve(guest guest, input io.Reader, output *bufio.Writer) error {
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(input, prefix[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		length := binary.LittleEndian.Uint32(prefix[:])
		if length > maxBody {
			return fmt.Errorf("the body must contain at most %d bytes (got %d)", maxBody, length)
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(input, body); err != nil {
			return err
		}
		reply, err := handle(guest, body)
		if errors.Is(err, errInvalidRequest) {
			return err
		}
		if err != nil {
			reply = append([]byte{kindError}, err.Error()...)
		}
		binary.LittleEndian.PutUint32(prefix[:], uint32(len(reply)))
		if _, err := output.Write(append(prefix[:], reply...)); err != nil {
			return err
		}
		if err := output.Flush(); err != nil {
			return err
		}
		if reply[0] == kindStopped {
			return nil
		}
	}
}

// errInvalidRequest marks requests that violate the format of frames.
var errInvalidRequest = errors.New("the request is not valid")

// handle passes a request to the guest, and returns the body of the answer.
func handle(guest guest, request []byte) ([]byte, error) {
	body := body{rest: request}
	switch kind := body.uint8(); kind {
	case kindStart:
		version, end, seed := body.uint16(), end(body.uint8()), body.uint64()
		if body.isShort {
			return nil, fmt.Errorf("%w: the body is too short", errInvalidRequest)
		}
		if version != contractVersion {
			return nil, fmt.Errorf("%w: the version of the contract must be %d (got %d)", errInvalidRequest, contractVersion, version)
		}
		if end != client && end != server {
			return nil, fmt.Errorf("%w: the end must be 0 or 1 (got %d)", errInvalidRequest, end)
		}
		wake, err := guest.start(end, seed, string(body.rest))
		return binary.LittleEndian.AppendUint64([]byte{kindStarted}, wake), err
	case kindRun:
		now, count := body.uint64(), body.uint32()
		var received []datagram
		for i := uint32(0); i < count && !body.isShort; i++ {
			body.uint32() // The flow is 0.
			body.uint8()  // Netstack has no ECN.
			received = append(received, body.bytes(int(body.uint16())))
		}
		if body.isShort || len(body.rest) > 0 {
			return nil, fmt.Errorf("%w: the length of the body must be that of its contents", errInvalidRequest)
		}
		answer, err := guest.run(now, received)
		return answer.body(now), err
	case kindStop:
		return []byte{kindStopped}, nil
	default:
		return nil, fmt.Errorf("%w: the kind must be 1, 2 or 3 (got %d)", errInvalidRequest, kind)
	}
}

// body returns the body of the answer to a request to run at the time now.
func (a *answer) body(now uint64) []byte {
	out := binary.LittleEndian.AppendUint64([]byte{kindAnswer}, now)
	out = binary.LittleEndian.AppendUint64(out, a.wake)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(a.datagrams)))
	for _, datagram := range a.datagrams {
		out = append(out, 0, 0, 0, 0, 0) // The flow 0 and Not-ECT.
		out = binary.LittleEndian.AppendUint16(out, uint16(len(datagram)))
		out = append(out, datagram...)
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(a.events)))
	for _, event := range a.events {
		out = append(out, byte(len(event.name)))
		out = append(out, event.name...)
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(event.value))
	}
	return out
}

// body is the unread part of the body of a request. If the body is too short, all numbers are 0.
type body struct {
	rest    []byte
	isShort bool
}

func (b *body) bytes(count int) []byte {
	if count > len(b.rest) {
		b.isShort, b.rest = true, nil
		return make([]byte, 8)[:min(count, 8)]
	}
	bytes := b.rest[:count]
	b.rest = b.rest[count:]
	return bytes
}

func (b *body) uint8() byte    { return b.bytes(1)[0] }
func (b *body) uint16() uint16 { return binary.LittleEndian.Uint16(b.bytes(2)) }
func (b *body) uint32() uint32 { return binary.LittleEndian.Uint32(b.bytes(4)) }
func (b *body) uint64() uint64 { return binary.LittleEndian.Uint64(b.bytes(8)) }
