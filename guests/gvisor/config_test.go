package main

import (
	"strings"
	"testing"
)

func TestConfigurationIsRead(t *testing.T) {
	for text, expected := range map[string]config{
		`{}`: defaults,
		`{"control": "cubic", "size": 5, "rack": false, "ecn": false}`: {control: "cubic", size: 5},
		`{"size": 18446744073709551615}`:                               {control: "reno", size: 18446744073709551615, rack: true},
	} {
		if config, err := readConfig(text); err != nil || config != expected {
			t.Errorf("%s: %v, %v", text, config, err)
		}
	}
}

func TestInvalidConfigurationIsNamed(t *testing.T) {
	for text, message := range map[string]string{
		`{"length": 5}`:       "unknown field `length`, expected one of `control`, `size`, `rack`, `ecn`",
		`{"control": "bbr"}`:  "unknown variant `bbr`, expected `reno` or `cubic`",
		`{"control": 5}`:      "control must be a string (got 5)",
		`{"control": null}`:   "control must be a string (got null)",
		`{"size": 0}`:         "size must be from 1 to 18446744073709551615 (got 0)",
		`{"size": -1}`:        "(got -1)",
		`{"size": 1.5}`:       "(got 1.5)",
		`{"size": null}`:      "(got null)",
		`{"rack": 1}`:         "rack must be true or false (got 1)",
		`{"ecn": true}`:       "ecn must be false, because gVisor has no ECN",
		`{"ecn": 1}`:          "ecn must be true or false (got 1)",
		`size`:                "invalid character",
		`[]`:                  "cannot unmarshal array",
		``:                    "unexpected end of JSON input",
		`{"size": 1, "a": 2}`: "unknown field `a`",
	} {
		_, err := readConfig(text)
		if err == nil || !strings.HasPrefix(err.Error(), "configuration: ") || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
