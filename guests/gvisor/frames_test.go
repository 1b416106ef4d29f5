package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// echo returns each datagram, and reports the number of datagrams.
type echo struct {
	started string
}

func (e *echo) start(end end, seed uint64, config string) (uint64, error) {
	if config == "bad" {
		return never, errors.New("configuration: bad")
	}
	e.started = fmt.Sprintln(end, seed, config)
	return 7, nil
}

func (e *echo) run(now uint64, received []datagram) (answer, error) {
	return answer{received, now + 1, []event{{"n", float64(len(received))}}}, nil
}

// frame returns a request: numbers in little-endian order, and texts.
func frame(fields ...any) []byte {
	var body []byte
	for _, field := range fields {
		if text, ok := field.(string); ok {
			body = append(body, text...)
		} else {
			body, _ = binary.Append(body, binary.LittleEndian, field)
		}
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func served(input []byte) ([]byte, *echo, error) {
	var output bytes.Buffer
	guest := &echo{}
	err := serve(guest, bytes.NewReader(input), bufio.NewWriter(&output))
	return output.Bytes(), guest, err
}

func TestRequestsAreAnswered(t *testing.T) {
	requests := slices.Concat(
		frame(byte(kindStart), uint16(1), byte(1), uint64(9), "{}"),
		frame(byte(kindRun), uint64(5), uint32(2), uint32(0), byte(0), uint16(2), "ab", uint32(0), byte(3), uint16(1), "c"),
		frame(byte(kindStop)),
		frame(byte(kindStop)),
	)
	answers := slices.Concat(
		frame(byte(kindStarted), uint64(7)),
		frame(byte(kindAnswer), uint64(5), uint64(6), uint32(2), uint32(0), byte(0), uint16(2), "ab", uint32(0), byte(0), uint16(1),
			"c", uint32(1), byte(1), "n", float64(2)),
		frame(byte(kindStopped)),
	)
	output, guest, err := served(requests)
	if err != nil || !bytes.Equal(output, answers) || guest.started != "1 9 {}\n" {
		t.Errorf("%v, %q, %q", err, guest.started, output)
	}
}

func TestErrorOfTheGuestIsReported(t *testing.T) {
	output, _, err := served(frame(byte(kindStart), uint16(1), byte(0), uint64(9), "bad"))
	if expected := frame(byte(kindError), "configuration: bad"); err != nil || !bytes.Equal(output, expected) {
		t.Errorf("%v, %q", err, output)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	for message, request := range map[string][]byte{
		"the version of the contract must be 1 (got 2)":               frame(byte(kindStart), uint16(2), byte(0), uint64(0)),
		"the end must be 0 or 1 (got 2)":                              frame(byte(kindStart), uint16(1), byte(2), uint64(0)),
		"the body is too short":                                       frame(byte(kindStart), uint16(1)),
		"the length of the body must be that of its contents":         frame(byte(kindRun), uint64(5), uint32(1), uint32(0), byte(0), uint16(9), "ab"),
		"the kind must be 1, 2 or 3 (got 9)":                          frame(byte(9)),
		"the kind must be 1, 2 or 3 (got 0)":                          frame(),
		"the body must contain at most 1073741824 bytes (got 4294967": {255, 255, 255, 255},
		"unexpected EOF":                                              {5, 0, 0, 0, 1},
	} {
		if output, _, err := served(request); err == nil || !strings.Contains(err.Error(), message) || len(output) > 0 {
			t.Errorf("%s: %v, %q", message, err, output)
		}
	}
	longer := frame(byte(kindRun), uint64(5), uint32(0), byte(0))
	if _, _, err := served(longer); !errors.Is(err, errInvalidRequest) {
		t.Errorf("a body that is too long: %v", err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(frame(byte(kindRun), uint64(5), uint32(1), uint32(0), byte(0), uint16(1), "a"))
	f.Add(frame(byte(kindStart), uint16(1), byte(0), uint64(9), "{}"))
	f.Fuzz(func(_ *testing.T, input []byte) { served(input) })
}
