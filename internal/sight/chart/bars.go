package chart

import "math"

// Bar is a named value.
type Bar struct {
	Name  string
	Value float64
	Text  string // the value as shown
}

// Bars returns a bar chart as a part of a page, or nothing if no value is positive. text describes
// it to screen readers.
func Bars(text string, bars []Bar) HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.Value)
	}
	if most <= 0 {
		return ""
	}
	const step = 11
	var parts []HTML
	for i, b := range bars {
		top := step * float64(i)
		width := math.Round(230 * max(b.Value, 0) / most)
		parts = append(parts, Format(`<text x="0" y="%v">%s</text>`+
			`<rect class="bar" x="90" y="%v" width="%v" height="8"/><text x="%v" y="%v">%s</text>`+"\n",
			top+7.5, clip(b.Name, 20), top, width, width+94, top+7.5, b.Text))
	}
	return Format(`<svg viewBox="0 0 400 %v" role="img" aria-label="%s">
%s</svg>
`, step*len(bars), text, join(parts))
}
