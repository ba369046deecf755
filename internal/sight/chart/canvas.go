package chart

import (
	"fmt"
	"image/color"
	"math"
	"strings"
)

// canvas takes the shapes of a picture.
type canvas interface {
	line(from, to spot, p pen)
	curve(through []spot, p pen)
	area(within []spot, c color.NRGBA) // lightly filled
	text(at spot, is anchor, text string)
	upright(middle spot, text string) // reads from the bottom up
}

// spot is a position in a picture, from its upper left corner.
type spot struct{ x, y float64 }

// pen is how a line is drawn.
type pen struct {
	colour color.NRGBA
	width  float64
	dashed bool
}

// Lengths of a dash and of the gap after it.
const (
	dash = 6
	gap  = 4
)

// filled is the opacity of an area.
const filled = 0.25

// anchor is the part of a text that is at its position.
type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

// svg is a canvas of SVG's elements.
type svg struct{ parts []HTML }

func (s *svg) add(format string, args ...any) {
	s.parts = append(s.parts, Format(format+"\n", args...))
}

func (s *svg) line(from, to spot, p pen) {
	s.add(`<line x1="%v" y1="%v" x2="%v" y2="%v" %s/>`, tenths(from.x), tenths(from.y), tenths(to.x), tenths(to.y),
		p.attributes())
}

func (s *svg) curve(through []spot, p pen) {
	s.add(`<polyline fill="none" %s points="%s"/>`, p.attributes(), path(through))
}

func (s *svg) area(within []spot, c color.NRGBA) {
	s.add(`<polygon fill="%s" fill-opacity="%v" points="%s"/>`, css(c), filled, path(within))
}

func (s *svg) text(at spot, is anchor, text string) {
	place := HTML("")
	if is != start {
		place = Format(` text-anchor="%s"`, is)
	}
	s.add(`<text x="%v" y="%v"%s>%s</text>`, tenths(at.x), tenths(at.y), place, text)
}

func (s *svg) upright(at spot, text string) {
	s.add(`<text transform="translate(%v %v) rotate(-90)" text-anchor="middle">%s</text>`, tenths(at.x), tenths(at.y),
		text)
}

func (p pen) attributes() HTML {
	all := Format(`stroke="%s"`, css(p.colour))
	if p.width != 1 {
		all += Format(` stroke-width="%v"`, p.width)
	}
	if p.dashed {
		all += Format(` stroke-dasharray="%d %d"`, dash, gap)
	}
	return all
}

func css(c color.NRGBA) string {
	if c.A == 0xff {
		return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
	}
	return fmt.Sprintf("#%02x%02x%02x%02x", c.R, c.G, c.B, c.A)
}

func path(spots []spot) string {
	var b strings.Builder
	for i, at := range spots {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.1f,%.1f", at.x, at.y)
	}
	return b.String()
}

// tenths rounds a position to what can be seen.
func tenths(v float64) float64 { return math.Round(10*v) / 10 }
