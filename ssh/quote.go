package ssh

import (
	"errors"
	"strings"
)

// Quote joins argv to one command line that the login shell of the remote user
// splits into argv again. A word made only of letters, digits and ./_- stays as
// it is, which every shell understands. Others are quoted such that sh and its
// kin, csh, tcsh and fish agree: ' \ and ! stand behind a backslash outside of
// quotes, because the shells differ on them inside; all else stands in single
// quotes. The one disagreement left is a line break, which csh and tcsh cannot
// take. The word must hold no NUL, since no program could receive it.
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

// special reports whether a shell might see more in r than itself.
func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r))
}
