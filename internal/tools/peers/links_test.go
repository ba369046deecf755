package main

import (
	"math"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestLinksAreChecked(t *testing.T) {
	good := links{hosts: 16, delay: 5 * time.Millisecond, mbit: 100}
	check.OK(t, good.check(32))
	for _, c := range []struct {
		l     links
		ranks int
	}{
		{links{hosts: 16, mbit: 100}, 30}, {links{hosts: 1, mbit: 100}, 2}, {links{hosts: 2}, 2},
		{links{hosts: 2, mbit: 1, delay: -1}, 2}, {links{hosts: 2, mbit: 1, slowest: -1}, 2},
	} {
		check.That(t, c.l.check(c.ranks) != nil, "%+v with %d ranks is taken", c.l, c.ranks)
	}
}

func TestLeastTimeThatLinksAllow(t *testing.T) {
	l := links{hosts: 16, delay: 5 * time.Millisecond, mbit: 100}
	slow := l
	slow.slowest = 50
	for _, c := range []struct {
		l     links
		bytes int
		want  float64 // µs
	}{
		{l, 8, 20e3},                       // four crossings
		{l, 1e6, 2 * 15. / 16 * 8e6 / 100}, // 100 bits in a µs
		{slow, 1e6, 2 * 15. / 16 * 8e6 / 50},
		{links{hosts: 9, delay: time.Millisecond, mbit: 1e3}, 8, 4e3},
	} {
		got := c.l.least(c.bytes)
		check.That(t, math.Abs(got-c.want) <= 1e-6*c.want, "%+v, %d bytes: %g, want %g", c.l, c.bytes, got, c.want)
	}
}
