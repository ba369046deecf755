package chart

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"path/filepath"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/inconsolata"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// density is the number of pixels for a unit of an SVG: the letters, of 8 by 16 pixels, then look
// as large as there.
const density = 1.5

// Picture returns the chart as the bytes of a file: PNG if its name says so, else SVG.
func (p Plot) Picture(name string) ([]byte, error) {
	if !strings.EqualFold(filepath.Ext(name), ".png") {
		return []byte(p.SVG()), nil
	}
	return p.png()
}

// png returns what [Plot.SVG] draws, in pixels.
func (p Plot) png() ([]byte, error) {
	f := p.frame()
	size := image.Rect(0, 0, int(math.Ceil(density*f.width)), int(math.Ceil(density*f.height)))
	to := &pixels{image: image.NewNRGBA(size), fill: vector.NewRasterizer(0, 0)}
	draw.Draw(to.image, size, image.White, image.Point{}, draw.Src)
	to.text(spot{f.left, 24}, start, p.Title)
	p.draw(f, to)
	var b bytes.Buffer
	if err := png.Encode(&b, to.image); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// pixels is a canvas of pixels.
type pixels struct {
	image *image.NRGBA
	fill  *vector.Rasterizer
	path  [][]spot // polygons, in pixels
}

func (c *pixels) line(from, to spot, p pen) { c.curve([]spot{from, to}, p) }

func (c *pixels) curve(through []spot, p pen) {
	width := p.width / 2
	runs := [][]spot{through}
	if p.dashed {
		runs = dashes(through)
	}
	for _, run := range runs {
		for i, at := range run {
			if i > 0 {
				c.segment(run[i-1], at, width)
			}
			if i > 0 && i < len(run)-1 {
				c.joint(at, width)
			}
		}
	}
	c.paint(p.colour)
}

func (c *pixels) area(within []spot, of color.NRGBA) {
	c.polygon(within)
	of.A = uint8(math.Round(filled * float64(of.A)))
	c.paint(of)
}

func (c *pixels) text(at spot, is anchor, text string) {
	d := font.Drawer{
		Dst:  c.image,
		Src:  image.Black,
		Face: inconsolata.Regular8x16,
		Dot:  fixed.P(int(math.Round(density*at.x)), int(math.Round(density*at.y))),
	}
	switch long := d.MeasureString(text); is {
	case middle:
		d.Dot.X -= long / 2
	case end:
		d.Dot.X -= long
	}
	d.DrawString(text)
}

func (c *pixels) upright(at spot, text string) {
	face := inconsolata.Regular8x16
	long := font.MeasureString(face, text).Ceil()
	flat := image.NewAlpha(image.Rect(0, 0, long, face.Height))
	d := font.Drawer{
		Dst:  flat,
		Src:  image.Opaque,
		Face: face,
		Dot:  fixed.P(0, face.Ascent),
	}
	d.DrawString(text)
	turned := image.NewAlpha(image.Rect(0, 0, flat.Rect.Dy(), long))
	for y := range flat.Rect.Dy() {
		for x := range long {
			turned.SetAlpha(y, long-1-x, flat.AlphaAt(x, y))
		}
	}
	corner := image.Pt(int(math.Round(density*at.x))-face.Ascent, int(math.Round(density*at.y))-long/2)
	draw.DrawMask(c.image, turned.Rect.Add(corner), image.Black, image.Point{}, turned, image.Point{}, draw.Over)
}

// segment adds a line without its joints to the path.
func (c *pixels) segment(from, to spot, half float64) {
	long := from.to(to)
	if long == 0 {
		return
	}
	aside := spot{half * (to.y - from.y) / long, half * (from.x - to.x) / long}
	c.polygon([]spot{{from.x + aside.x, from.y + aside.y}, {to.x + aside.x, to.y + aside.y},
		{to.x - aside.x, to.y - aside.y}, {from.x - aside.x, from.y - aside.y}})
}

// joint adds a disc to the path. It turns as segments do, so that they do not cancel each other.
func (c *pixels) joint(at spot, radius float64) {
	const corners = 16
	var edge []spot
	for i := range corners {
		angle := 2 * math.Pi * float64(i) / corners
		edge = append(edge, spot{at.x + radius*math.Cos(angle), at.y + radius*math.Sin(angle)})
	}
	c.polygon(edge)
}

func (c *pixels) polygon(edge []spot) {
	var corners []spot
	for _, at := range edge {
		corners = append(corners, spot{density * at.x, density * at.y})
	}
	c.path = append(c.path, corners)
}

// paint fills the path, and begins another. It takes time in proportion to the room that the path
// takes in the picture: there may be hundreds of lines.
func (c *pixels) paint(of color.NRGBA) {
	within := c.room()
	c.fill.Reset(within.Dx(), within.Dy())
	for _, edge := range c.path {
		for i, at := range edge {
			x := float32(at.x - float64(within.Min.X))
			y := float32(at.y - float64(within.Min.Y))
			if i == 0 {
				c.fill.MoveTo(x, y)
			} else {
				c.fill.LineTo(x, y)
			}
		}
		c.fill.ClosePath()
	}
	c.path = nil
	c.fill.Draw(c.image, within, image.NewUniform(of), image.Point{})
}

// room returns the pixels that the path may fill.
func (c *pixels) room() image.Rectangle {
	low := spot{math.Inf(1), math.Inf(1)}
	high := spot{math.Inf(-1), math.Inf(-1)}
	for _, edge := range c.path {
		for _, at := range edge {
			low = spot{min(low.x, at.x), min(low.y, at.y)}
			high = spot{max(high.x, at.x), max(high.y, at.y)}
		}
	}
	all := c.image.Rect
	at := func(v float64, most int) int { return int(max(0, min(v, float64(most)))) }
	return image.Rect(at(math.Floor(low.x), all.Max.X), at(math.Floor(low.y), all.Max.Y),
		at(math.Ceil(high.x), all.Max.X), at(math.Ceil(high.y), all.Max.Y))
}

// dashes cuts a line into its dashes.
func dashes(through []spot) (all [][]spot) {
	dashed := []spot{through[0]} // nil: within a gap
	left := float64(dash)        // length until the next change
	for i, to := range through[1:] {
		from := through[i]
		for long := from.to(to); long >= left; long = from.to(to) {
			from = spot{from.x + (to.x-from.x)*left/long, from.y + (to.y-from.y)*left/long}
			if dashed != nil {
				all = append(all, append(dashed, from))
				dashed = nil
				left = gap
			} else {
				dashed = []spot{from}
				left = dash
			}
		}
		left -= from.to(to)
		if dashed != nil {
			dashed = append(dashed, to)
		}
	}
	return append(all, dashed)
}

// to returns the distance to another spot.
func (s spot) to(other spot) float64 { return math.Hypot(other.x-s.x, other.y-s.y) }
