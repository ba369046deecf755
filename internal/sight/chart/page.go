// Package chart draws pages of HTML and charts of SVG, which need no network and no script.
package chart

import (
	_ "embed"
	"fmt"
	"html"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

//go:embed page.css
var style HTML

// HTML is markup. Whatever else goes into a page is escaped.
type HTML string

// Format formats markup like fmt.Sprintf. It escapes every argument that is neither HTML nor a
// number, for texts and for quoted attributes.
func Format(format string, args ...any) HTML {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case HTML, int, float64:
			safe[i] = arg
		default:
			safe[i] = html.EscapeString(prose.Plain(fmt.Sprint(arg)))
		}
	}
	return HTML(fmt.Sprintf(format, safe...))
}

// join concatenates parts.
func join(parts []HTML) HTML {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(string(part))
	}
	return HTML(b.String())
}

// Page returns a whole document.
func Page(title string, body ...HTML) HTML {
	return Format(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/>
<link rel="icon" href="data:,"/><title>%s</title>
<style>
%s</style></head>
<body><main>
<h1>%s</h1>
%s</main></body></html>
`, title, style, title, join(body))
}

// Section returns a part of a page: a heading, a paragraph unless text is empty, and the body.
func Section(title, text string, body ...HTML) HTML {
	if text != "" {
		body = append([]HTML{Format("<p>%s</p>\n", text)}, body...)
	}
	return Format("<section><h2>%s</h2>\n%s</section>\n", title, join(body))
}

// Table returns a table that scrolls by itself. label names it for screen readers.
func Table(label string, columns []string, rows [][]string) HTML {
	var head HTML
	for _, c := range columns {
		head += Format(`<th scope="col">%s</th>`, c)
	}
	lines := make([]HTML, 0, len(rows))
	for _, row := range rows {
		var cells HTML
		for _, c := range row {
			cells += Format("<td>%s</td>", c)
		}
		lines = append(lines, "<tr>"+cells+"</tr>\n")
	}
	return Format(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table><thead><tr>%s</tr></thead><tbody>
%s</tbody></table></div>
`, label, head, join(lines))
}
