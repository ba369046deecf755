package ui

import (
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestRepeatsOfOneRequestCountOnce(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		at   []time.Duration // of the signals
		want []int
	}{
		"one signal":                    {[]time.Duration{0}, []int{1}},
		"timeout's child and its group": {[]time.Duration{0, 10 * time.Microsecond}, []int{1, 0}},
		"a parent on a busy machine":    {[]time.Duration{0, 150 * ms, 299 * ms}, []int{1, 0, 0}},
		"a person":                      {[]time.Duration{0, 400 * ms, 800 * ms}, []int{1, 2, 3}},
		"a person below timeout":        {[]time.Duration{0, ms, 900 * ms, 901 * ms, 2000 * ms}, []int{1, 0, 2, 0, 3}},
		"a key that is held down":       {[]time.Duration{0, 120 * ms, 240 * ms, 360 * ms}, []int{1, 0, 0, 2}},
	} {
		var p Presses
		var got []int
		start := time.Now()
		for _, at := range tt.at {
			got = append(got, p.At(start.Add(at)))
		}
		check.That(t, slices.Equal(got, tt.want), "%s: %v, want %v", name, got, tt.want)
	}
}
