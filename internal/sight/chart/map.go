package chart

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"math"
)

// HeatMap is a chart of cells in rows and columns.
type HeatMap struct {
	Text    string // description for screen readers
	Rows    []string
	Columns []string
	Cells   []Cell
}

// Cell is a value of a HeatMap.
type Cell struct {
	Row, Column int
	Heat        float64 // 0 to 1; NaN: no value, drawn black
	Text        string  // tooltip
}

const (
	cellSize = 10.0
	nameSize = 60.0 // size of the names of rows and columns
)

// SVG returns the map as a part of a page.
func (m HeatMap) SVG() HTML {
	middle := func(n int) float64 { return nameSize + cellSize*float64(n) + 7.5 }
	var parts []HTML
	for i, name := range m.Rows {
		parts = append(parts, Format(`<text x="0" y="%v">%s</text>`+"\n", middle(i), clip(name, 14)))
	}
	for i, name := range m.Columns {
		parts = append(parts, Format(`<text x="%v" y="%v" transform="rotate(-90 %v %v)">%s</text>`+"\n", middle(i),
			nameSize-3, middle(i), nameSize-3, clip(name, 14)))
	}
	for _, c := range m.Cells {
		fill := "#000"
		if !math.IsNaN(c.Heat) {
			w := warm(c.Heat)
			fill = string(Format("rgb(%v,%v,%v)", int(w.R), int(w.G), int(w.B)))
		}
		parts = append(parts, Format(`<rect x="%v" y="%v" width="9.5" height="9.5" fill="%s"><title>%s</title></rect>`+"\n",
			nameSize+cellSize*float64(c.Column), nameSize+cellSize*float64(c.Row), fill, c.Text))
	}
	return Format(`<svg viewBox="0 0 %v %v" role="img" aria-label="%s">
%s</svg>
`, nameSize+cellSize*float64(len(m.Columns)), nameSize+cellSize*float64(len(m.Rows)), m.Text, join(parts))
}

// warm returns the colour of a heat from 0, blue, to 1, red.
func warm(heat float64) color.NRGBA {
	heat = min(max(heat, 0), 1)
	return color.NRGBA{
		R: uint8(70 + 140*heat),
		G: uint8(130 - 90*heat),
		B: uint8(190 - 150*heat),
		A: 255,
	}
}

// Raster returns a heat map of too many cells for names and texts, as a picture that is height
// pixels high. heat has the columns from left to right, each from the top down, from 0 to 1; NaN is
// transparent.
func Raster(heat [][]float64, height int, text string) (HTML, error) {
	img := image.NewNRGBA(image.Rect(0, 0, len(heat), len(heat[0])))
	for x, column := range heat {
		for y, h := range column {
			if !math.IsNaN(h) {
				img.SetNRGBA(x, y, warm(h))
			}
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img); err != nil {
		return "", err
	}
	return Format(`<img class="heat" style="height:%vpx" src="data:image/png;base64,%s" alt="%s"/>`+"\n", height,
		base64.StdEncoding.EncodeToString(b.Bytes()), text), nil
}

// clip shortens a name to n characters.
func clip(name string, n int) string {
	if letters := []rune(name); len(letters) > n {
		return string(letters[:n-1]) + "…"
	}
	return name
}
