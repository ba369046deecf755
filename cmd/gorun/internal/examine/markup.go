package examine

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
)

//go:embed page.css
var style string

// markup is a page of HTML under way.
type markup struct{ strings.Builder }

// add adds a format of HTML. Strings among its arguments are escaped, as text and as quoted
// attributes need it.
func (m *markup) add(format string, args ...any) {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = html.EscapeString(s)
		}
	}
	fmt.Fprintf(m, format, args...)
}

func (m *markup) begin(title, examined string) {
	m.add(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/><link rel="icon" href="data:,"/><title>%s</title>
<style>
`, title)
	m.WriteString(style)
	m.add("</style></head>\n<body><main>\n<h1>%s</h1>\n<p>%s</p>\n", title, examined)
}

func (m *markup) findings(rows []findingRow) {
	if len(rows) == 0 {
		return
	}
	m.add("<section><h2>Findings</h2><ul>\n")
	for _, r := range rows {
		m.add(`<li><span class="%s">%s</span> %s: %s%s`, r.Severity, r.Severity, r.Who, r.Text, r.Off)
		if r.Fix != "" {
			m.add(`<span class="fix">%s</span>`, r.Fix)
		}
		m.add("</li>\n")
	}
	m.add("</ul></section>\n")
}

func (m *markup) pairMap(p pairMap) {
	m.add("<section><h2>%s</h2><p>%s</p>\n", p.Title, p.Text)
	m.add(`<svg viewBox="0 0 %v %v" role="img" aria-label="%s. The table of hosts has the numbers.">`+"\n", p.Side,
		p.Side, p.Title)
	for _, l := range p.Labels {
		m.add(`<text x="%v" y="%v"`, l.X, l.Y)
		if l.Turned {
			m.add(` transform="rotate(-90 %v %v)"`, l.X, l.Y)
		}
		m.add(">%s</text>\n", l.Text)
	}
	for _, c := range p.Cells {
		m.add(`<rect x="%v" y="%v" width="9.5" height="9.5" fill="%s"><title>%s</title></rect>`+"\n", c.X, c.Y, c.Color,
			c.Text)
	}
	m.add("</svg></section>\n")
}

func (m *markup) bars(b bars) {
	m.add("<section><h2>%s</h2>\n", b.Title)
	m.add(`<svg viewBox="0 0 400 %v" role="img" aria-label="%s of each host. The table has the numbers.">`+"\n",
		b.Height, b.Title)
	for _, r := range b.Rows {
		m.add(`<text x="0" y="%v">%s</text><rect class="bar" x="90" y="%v" width="%v" height="8"/><text x="%v" y="%v">%s</text>`+"\n", r.Y, r.Name, r.Top, r.Width, r.End, r.Y, r.Text)
	}
	m.add("</svg></section>\n")
}

func (m *markup) hosts(columns []string, rows [][]string) {
	m.add(`<section><h2>Hosts</h2><div class="scroll" tabindex="0" role="region" aria-label="Hosts"><table><thead><tr>`)
	for _, c := range columns {
		m.add(`<th scope="col">%s</th>`, c)
	}
	m.add("</tr></thead><tbody>\n")
	for _, row := range rows {
		m.add("<tr>")
		for _, c := range row {
			m.add("<td>%s</td>", c)
		}
		m.add("</tr>\n")
	}
	m.add("</tbody></table></div></section>\n")
}

func (m *markup) end() { m.add("</main></body></html>\n") }
