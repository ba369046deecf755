package prose

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// hidden reports whether a terminal would obey r, show nothing for it, or show other characters in
// another order: control characters, format characters (the bidirectional ones among them),
// separators of lines and paragraphs, letters without ink, and variation selectors but those of
// emoji, such as in a prefix of the user's.
func hidden(r rune) bool {
	if r == asText || r == asEmoji {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector)
}

// Variation selectors of emoji.
const (
	asText  = '\uFE0E'
	asEmoji = '\uFE0F'
)

// Plain replaces every character that a terminal would obey or hide by a question mark, except line
// ends and tabs. All that gorun itself prints passes through it, since parts of it come from hosts,
// files and the environment.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && hidden(r) {
			return '?'
		}
		return r
	}, text)
}

// maxText bounds the shown bytes of one text from another machine.
const maxText = 4 << 10

// Printable is Plain for text from another machine, which it also folds into one line and bounds.
// It says how much it leaves out.
func Printable(text string) string {
	if len(text) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		return fmt.Sprintf("%s ... (%d bytes left out)", Printable(text[:end]), len(text)-end)
	}
	lines := strings.FieldsFunc(strings.TrimSpace(text), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.ReplaceAll(Plain(strings.Join(lines, "; ")), "\t", "?")
}

// PlainJSON escapes, in a JSON document, the characters that Plain replaces. Its meaning stays the
// same.
func PlainJSON(document []byte) []byte {
	if !strings.ContainsFunc(string(document), hidden) {
		return document
	}
	var b strings.Builder
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == '\t' || !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}
