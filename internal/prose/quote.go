package prose

import "strings"

// Quoted joins words to one command line that a login shell splits into the same words again: for
// the remote shell, and for commands in hints, which the user may paste whatever a word says. A
// word of letters, digits and ./_- is not quoted. Others are quoted so that sh and its relatives,
// csh, tcsh and fish agree: ' \ and ! follow a backslash outside of quotes, because the shells
// differ on them inside, and the rest is in single quotes. A line break fails in csh and tcsh. No
// word may hold a NUL.
func Quoted(words ...string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, word)
	}
	return b.String()
}

func quoteWord(b *strings.Builder, word string) {
	if word != "" && strings.IndexFunc(word, special) < 0 {
		b.WriteString(word)
		return
	}
	if word == "" {
		b.WriteString("''")
		return
	}
	const escaped = `'\!`
	for word != "" {
		end := strings.IndexAny(word, escaped)
		if end == 0 {
			b.WriteByte('\\')
			b.WriteByte(word[0])
			word = word[1:]
			continue
		}
		if end < 0 {
			end = len(word)
		}
		b.WriteByte('\'')
		b.WriteString(word[:end])
		b.WriteByte('\'')
		word = word[end:]
	}
}

// special reports whether r may be special to a shell.
func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r))
}
