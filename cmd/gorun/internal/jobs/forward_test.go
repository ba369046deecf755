package jobs

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]Port{
		"6006":        {6006, 6006},
		"6006:8080":   {6006, 8080},
		"6006:0":      {6006, 0},
		"":            {},
		"0":           {},
		"65536":       {},
		"6006:":       {},
		":8080":       {},
		"6006:65536":  {},
		"6006:-1":     {},
		"3:6006:8080": {},
		"http":        {},
	} {
		got, err := ParsePort(text)
		check.That(t, got == want && (err == nil) == (want != Port{}),
			"ParsePort(%q) = %v, %v, want %v", text, got, err, want)
	}
}
