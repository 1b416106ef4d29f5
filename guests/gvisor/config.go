package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// config is the configuration of one end, which is a JSON table.
type config struct {
	// control is the congestion control, reno or cubic.
	control string
	// size is the number of bytes of the file that the server sends.
	size uint64
	// rack is false if loss recovery follows RFC 6675 instead of RACK.
	rack bool
}

// defaults are those of netstack, and the size of aqmlab's other guests.
var defaults = config{control: "reno", size: 1_000_000, rack: true}

// readConfig reads a configuration. The messages are those of the guests in aqmlab-guests.
func readConfig(text string) (config, error) {
	config := defaults
	var table map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &table); err != nil {
		return config, fmt.Errorf("configuration: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		switch key {
		case "control":
			if !read(value, &config.control) {
				return config, fmt.Errorf("configuration: control must be a string (got %s)", value)
			}
			if config.control != "reno" && config.control != "cubic" {
				return config, fmt.Errorf("configuration: unknown variant `%s`, expected `reno` or `cubic`", config.control)
			}
		case "size":
			if !read(value, &config.size) || config.size == 0 {
				return config, fmt.Errorf("configuration: size must be from 1 to %d (got %s)", uint64(math.MaxUint64), value)
			}
		case "rack":
			if !read(value, &config.rack) {
				return config, fmt.Errorf("configuration: rack must be true or false (got %s)", value)
			}
		case "ecn":
			var ecn bool
			if !read(value, &ecn) {
				return config, fmt.Errorf("configuration: ecn must be true or false (got %s)", value)
			}
			if ecn {
				return config, fmt.Errorf("configuration: ecn must be false, because gVisor has no ECN")
			}
		default:
			return config, fmt.Errorf("configuration: unknown field `%s`, expected one of `control`, `size`, `rack`, `ecn`", key)
		}
	}
	return config, nil
}

// read reads a value, and reports whether the value has the type of the target.
func read(value json.RawMessage, target any) bool {
	return string(value) != "null" && json.Unmarshal(value, target) == nil
}
