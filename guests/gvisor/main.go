// Program aqmlab-gvisor is netstack, the TCP of gVisor, as a guest of aqmlab: the server sends a file over a TCP
// connection to the client. docs/guides/guests.md defines the contract, and docs/guides/gvisor-guest.md describes this
// guest.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
)

func main() {
	// Netstack creates one TCP processor for each processor of Go. A connection uses one TCP processor, which never runs
	// at the same time as the guest.
	runtime.GOMAXPROCS(1)
	if err := serve(&host{}, bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "aqmlab-gvisor:", err)
		os.Exit(1)
	}
}
