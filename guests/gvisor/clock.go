package main

import (
	"container/heap"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// origin is the reading of netstack's clock when the run begins. Netstack uses the time 0 for values that are not set.
const origin = time.Second

// clock is netstack's clock in virtual time. In contrast to faketime.ManualClock, the clock runs timers with equal times
// in the order in which netstack set the timers, and publishes the time of the next timer.
type clock struct {
	mu sync.Mutex
	// now is the time since the beginning of the run.
	now time.Duration
	// set counts the timers that netstack set.
	set uint64
	// pending contains the timers that are set, the earliest timer first.
	pending timers
}

var _ tcpip.Clock = (*clock)(nil)

// Now implements tcpip.Clock.
func (c *clock) Now() time.Time {
	return time.Unix(0, 0).Add(c.reading())
}

// NowMonotonic implements tcpip.Clock.
func (c *clock) NowMonotonic() tcpip.MonotonicTime {
	return tcpip.MonotonicTime{}.Add(c.reading())
}

func (c *clock) reading() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return origin + c.now
}

// AfterFunc implements tcpip.Clock.
func (c *clock) AfterFunc(delay time.Duration, callback func()) tcpip.Timer {
	t := &timer{clock: c, callback: callback, index: stopped}
	t.Reset(delay)
	return t
}

// advance sets the time since the beginning of the run.
func (c *clock) advance(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// runDue runs the first timer whose time has come, and reports whether there was one.
func (c *clock) runDue() bool {
	c.mu.Lock()
	if len(c.pending) == 0 || c.pending[0].due > c.now {
		c.mu.Unlock()
		return false
	}
	t := heap.Pop(&c.pending).(*timer)
	c.mu.Unlock()
	t.callback()
	return true
}

// next returns the time of the first timer, or false if no timer is set.
func (c *clock) next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return 0, false
	}
	return c.pending[0].due, true
}

// stopped is the index of a timer that is not set.
const stopped = -1

// timer is a timer of a clock.
type timer struct {
	clock    *clock
	callback func()
	due      time.Duration
	// order is the number of the timer among all timers that were set.
	order uint64
	// index is the position in the heap of the clock.
	index int
}

// Stop implements tcpip.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.stopLocked()
}

func (t *timer) stopLocked() bool {
	if t.index == stopped {
		return false
	}
	heap.Remove(&t.clock.pending, t.index)
	return true
}

// Reset implements tcpip.Timer.
func (t *timer) Reset(delay time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.stopLocked()
	t.due = t.clock.now + max(delay, 0)
	t.order = t.clock.set
	t.clock.set++
	heap.Push(&t.clock.pending, t)
}

// timers is a heap of timers in the order of their times.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].order < h[j].order
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = stopped
	return t
}
