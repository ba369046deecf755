package ssh

import (
	"errors"
	"strings"
)

// Quote joins argv to one command line that the remote user's login shell splits into argv again. A
// word of letters, digits and ./_- is not quoted. Others are quoted so that sh and its relatives,
// csh, tcsh and fish agree: ' \ and ! follow a backslash outside of quotes, because the shells
// differ on them inside, and the rest is in single quotes. A line break fails in csh and tcsh. A
// NUL is an error.
func Quote(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("no command to run")
	}
	var b strings.Builder
	for i, word := range argv {
		if strings.IndexByte(word, 0) >= 0 {
			return "", errors.New("a word of the command holds a NUL byte")
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, word)
	}
	return b.String(), nil
}

// quoted is Quote for the hints of errors, whose words hold no NUL byte.
func quoted(words ...string) string {
	line, _ := Quote(words)
	return line
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
