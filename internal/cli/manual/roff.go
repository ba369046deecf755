// Package manual writes manual pages in the macros of man(7), which every Unix can show.
package manual

import (
	"fmt"
	"strings"
)

// Page is a manual page of section 1, the user's commands.
type Page struct {
	Name     string // as man is asked for it: gorun-bench
	Short    string // what it does, in one line
	Version  string // shown at the bottom
	Synopsis []string
	Sections []Section
}

// Section is a part of a page under a heading. What is empty is left out.
type Section struct {
	Title string
	Text  string // paragraphs, with empty lines between them
	Terms []Term
	Plain string // lines shown as they are
}

// Term is a word and what it means.
type Term struct{ Word, Text string }

// Roff is the page's source.
func (p Page) Roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"User Commands\"\n", strings.ToUpper(p.Name), p.Version)
	// No hyphens and no stretched lines: options would come apart.
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

// escape makes text mean itself to roff: backslashes, hyphens, which would be printed as another character than what
// is typed, and lines that begin like requests. Lists may break after a bar.
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
