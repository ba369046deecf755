package chart

import (
	"cmp"
	"math"
)

// Scale maps values to positions on an axis.
type Scale int

const (
	Linear      Scale = iota
	Logarithmic       // positive values only
	Time              // seconds
)

// maxTicks bounds the steps between the ticks of an axis that is not logarithmic.
const maxTicks = 4

// maxPowers bounds those of a logarithmic axis, which may be all that a number can have.
const maxPowers = 24

// Axis is an axis of a Plot.
type Axis struct {
	Name    string
	Scale   Scale
	Base    float64   // base of a logarithmic axis, which has ticks at its powers; 0: 10
	Unit    Unit      // unit of the values; Time has its own
	Include []float64 // values always within the axis
}

func (a Axis) label(v float64) string {
	if a.Scale == Time {
		return clock(v)
	}
	return a.Unit.tick(v)
}

// span is an axis with its bounds, computed from a plot's values.
type span struct {
	Axis
	low, high float64 // bounds; logarithms on a logarithmic axis
	ticks     []float64
}

// shows reports whether a value can be on the axis.
func (a Axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (a.Scale != Logarithmic || v > 0)
}

func (a Axis) position(v float64) float64 {
	if a.Scale == Logarithmic {
		return math.Log(v)
	}
	return v
}

// over returns the axis for values.
func (a Axis) over(values []float64) span {
	s := span{Axis: a, low: math.Inf(1), high: math.Inf(-1)}
	for _, v := range append(values, a.Include...) {
		if a.shows(v) {
			s.low = min(s.low, a.position(v))
			s.high = max(s.high, a.position(v))
		}
	}
	if s.low > s.high {
		s.low = 0
		s.high = 1
	}
	if a.Scale == Logarithmic {
		s.powers(cmp.Or(a.Base, 10))
		return s
	}
	if s.low == s.high {
		s.high++
	}
	step := a.step(s.high - s.low)
	first := math.Ceil(s.low / step)
	for n := range maxTicks + 2 { // a bound: of large values, first+1 may be first
		if tick := (first + float64(n)) * step; tick <= s.high {
			s.ticks = append(s.ticks, tick)
		}
	}
	return s
}

// powers widens the axis to whole powers of base, and puts ticks there, or at some of many.
func (s *span) powers(base float64) {
	step := math.Log(base)
	first := math.Floor(s.low/step + 1e-9)
	last := math.Ceil(s.high/step - 1e-9)
	if first == last {
		last++
	}
	if many := (last - first) / maxPowers; many > 1 {
		s.powers(math.Pow(base, math.Ceil(many)))
		return
	}
	s.low = first * step
	s.high = last * step
	for n := first; n <= last; n++ {
		if tick := math.Pow(base, n); s.shows(tick) {
			s.ticks = append(s.ticks, tick)
		}
	}
}

// step returns the distance between ticks: 1, 2 or 5 times a power of ten, or of 60 for times.
func (a Axis) step(length float64) float64 {
	base := 10.0
	least := length / maxTicks
	if a.Scale == Time {
		base = 60
		least = max(least, 1)
	}
	power := math.Pow(base, math.Floor(math.Log(least)/math.Log(base)+1e-9))
	for _, times := range []float64{1, 2, 5, 10, 20, 30} {
		if times < base && times*power >= least {
			return times * power
		}
	}
	return base * power
}

// at maps a value to a position from 0 to 1.
func (s span) at(v float64) float64 { return (s.position(v) - s.low) / (s.high - s.low) }
