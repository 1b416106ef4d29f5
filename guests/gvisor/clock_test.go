package main

import (
	"slices"
	"testing"
	"time"
)

func TestTimersRunInTheOrderOfTheirTimesAndOfTheirSetting(t *testing.T) {
	clock, ran := &clock{}, []string(nil)
	set := func(name string, delay time.Duration) *timer {
		return clock.AfterFunc(delay, func() { ran = append(ran, name) }).(*timer)
	}
	set("late", 3)
	set("first", 2)
	set("second", 2)
	cancelled := set("cancelled", 1)
	moved := set("moved", 1)
	set("past", -1)
	moved.Reset(2)
	if !cancelled.Stop() || cancelled.Stop() {
		t.Error("a timer is stopped once")
	}
	if next, ok := clock.next(); !ok || next != 0 {
		t.Errorf("the next timer is due at %v", next)
	}
	if clock.advance(2); clock.reading() != origin+2 {
		t.Errorf("the clock reads %v", clock.reading())
	}
	for clock.runDue() {
	}
	if expected := []string{"past", "first", "second", "moved"}; !slices.Equal(ran, expected) {
		t.Errorf("the order is %v", ran)
	}
	if next, ok := clock.next(); !ok || next != 3 {
		t.Errorf("the next timer is due at %v", next)
	}
	clock.advance(3)
	clock.runDue()
	if _, ok := clock.next(); ok || moved.Stop() {
		t.Error("no timer is set")
	}
}

func TestCallbackCanSetItsTimerAgain(t *testing.T) {
	clock, runs := &clock{}, 0
	var again *timer
	again = clock.AfterFunc(1, func() {
		if runs++; runs < 3 {
			again.Reset(0)
		}
	}).(*timer)
	clock.advance(1)
	for clock.runDue() {
	}
	if runs != 3 {
		t.Errorf("%d runs", runs)
	}
}
