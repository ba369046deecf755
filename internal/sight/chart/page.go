// Package chart draws pages of HTML with charts that need no network. uPlot draws their plots, and
// SVG where there are no scripts.
package chart

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

var (
	//go:embed page.css
	style HTML
	//go:embed page.js
	script HTML
	//go:embed uplot/uPlot.min.css
	plotStyle HTML
	//go:embed uplot/uPlot.iife.min.js
	plotScript HTML
	//go:embed uplot/LICENSE
	plotLicence HTML
)

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

func join(parts []HTML) HTML {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(string(part))
	}
	return HTML(b.String())
}

// Page returns a whole document. Browsers run its own scripts, by their hashes, and no others.
func Page(title string, body ...HTML) HTML { return document(title, "", "", body) }

// LivePage is a Page whose script fetches the page again each second, and shows what has changed.
func LivePage(title string, body ...HTML) HTML {
	return document(title, "; connect-src 'self'", ` class="live"`, body)
}

func document(title string, policy, attributes HTML, body []HTML) HTML {
	styles := plotStyle + "\n" + style
	return Format(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s' '%s'; style-src '%s'; img-src data:%s"/>
<meta name="referrer" content="no-referrer"/>
<link rel="icon" href="data:,"/><title>%s</title>
<style>%s</style></head>
<body%s><main>
<h1>%s</h1>
%s</main>
%s</body></html>
`, hash(plotScript), hash(script), hash(styles), policy, title, styles, attributes, title,
		join(body), Scripts())
}

// Scripts returns the end of each page: the scripts that it runs.
func Scripts() HTML {
	return "<!-- uPlot\n" + plotLicence + "\n-->\n<script>" + plotScript + "</script>\n<script>" + script +
		"</script>\n"
}

// hash returns the source expression that allows a text in a Content-Security-Policy.
func hash(text HTML) HTML {
	sum := sha256.Sum256([]byte(text))
	return HTML("sha256-" + base64.StdEncoding.EncodeToString(sum[:]))
}

// Section returns a part of a page: a heading, a paragraph unless text is empty, and the body.
func Section(title, text string, body ...HTML) HTML {
	if text != "" {
		body = append([]HTML{Format("<p>%s</p>\n", text)}, body...)
	}
	return Format("<section><h2>%s</h2>\n%s</section>\n", title, join(body))
}

// Card is one fact at the head of a page.
type Card struct {
	Name, Value string
	Note        string // second line, or ""
	Bad         bool
}

// Cards shows facts side by side.
func Cards(cards []Card) HTML {
	var items HTML
	for _, c := range cards {
		class := HTML("card")
		if c.Bad {
			class += " bad"
		}
		items += Format(`<div class="%s"><dt>%s</dt><dd>%s`, class, c.Name, c.Value)
		if c.Note != "" {
			items += Format("<small>%s</small>", c.Note)
		}
		items += "</dd></div>\n"
	}
	return Format(`<dl class="cards">
%s</dl>
`, items)
}

const (
	// long is the number of bytes beyond which a cell of a Table has several lines.
	long = 40
	// maxTable bounds the bytes of a Table. A text of somebody else's, such as the name of a host,
	// may be in many rows, and a page is copied a few times as it is put together.
	maxTable = 16 << 20
	// cellCost is the bytes of a cell beside its text.
	cellCost = len(`<td class="wrap"></td>`)
)

// Table returns a table that scrolls by itself. label names it for screen readers. The page's
// script sorts it, and searches it if it is long. Rows beyond maxTable are left out.
func Table(label string, columns []string, rows [][]string) HTML {
	var head HTML
	for _, c := range columns {
		head += Format(`<th scope="col">%s</th>`, c)
	}
	lines := make([]HTML, 0, len(rows))
	room := maxTable
	for i, row := range rows {
		for _, c := range row {
			room -= len(c) + cellCost
		}
		if room < 0 {
			lines = append(lines, Format("<tr><td>%s left out</td></tr>\n", prose.Count(len(rows)-i, "more row")))
			break
		}
		var cells HTML
		for _, c := range row {
			cell := "<td>%s</td>"
			if len(c) > long {
				cell = `<td class="wrap">%s</td>`
			}
			cells += Format(cell, c)
		}
		lines = append(lines, "<tr>"+cells+"</tr>\n")
	}
	return Format(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table class="rows"><thead><tr>%s</tr></thead><tbody>
%s</tbody></table></div>
`, label, head, join(lines))
}
