// Package manual writes manual pages in the macros of man(7).
package manual

import (
	"fmt"
	"strings"
)

// Page is a manual page of section 1, user commands.
type Page struct {
	Name     string // argument of man: gorun-bench
	Short    string // description in one line
	Version  string // shown at the bottom
	Synopsis []string
	Sections []Section
}

// Section is a titled part of a page. Empty fields are left out.
type Section struct {
	Title string
	Text  string // paragraphs, with empty lines between them
	Terms []Term
	Plain string // preformatted lines
}

// Term is a term and its description.
type Term struct{ Word, Text string }

// Roff returns the page as roff source.
func (p Page) Roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"User Commands\"\n", strings.ToUpper(p.Name), p.Version)
	// Hyphenation and justification would break options apart.
	b.WriteString(".nh\n.ad l\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", escape(p.Name), escape(p.Short))
	for i, line := range p.Synopsis {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, "%s\n", escape(line))
	}
	for _, s := range p.Sections {
		s.write(&b)
	}
	return b.String()
}

func (s Section) write(b *strings.Builder) {
	fmt.Fprintf(b, ".SH %q\n", strings.ToUpper(s.Title))
	for i, paragraph := range strings.Split(s.Text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if paragraph != "" {
			b.WriteString(escape(paragraph) + "\n")
		}
	}
	for _, t := range s.Terms {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escape(t.Word), escape(t.Text))
	}
	if s.Plain != "" {
		fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", escape(strings.TrimRight(s.Plain, "\n")))
	}
}

// escape escapes text for roff: backslashes, hyphens, and lines that begin like requests. Lists may
// break after a bar.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "|", `|\:`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
