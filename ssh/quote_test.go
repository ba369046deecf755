package ssh

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestQuote(t *testing.T) {
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{".cache/gorun/0a-f_1/gorun", "-x"}, ".cache/gorun/0a-f_1/gorun -x"},
		{[]string{"a", ""}, "a ''"},
		{[]string{"a b"}, "'a b'"},
		{[]string{"it's"}, `'it'\''s'`},
		{[]string{`\`}, `\\`},
		{[]string{"hey!"}, `'hey'\!`},
		{[]string{"~", "A=b", "=ls"}, "'~' 'A=b' '=ls'"},
		{[]string{"\xff"}, "'\xff'"},
	} {
		got, err := Quote(test.argv)
		check.That(t, err == nil && got == test.want, "quote(%q) is %s, want %s: %v", test.argv, got, test.want, err)
	}
	for _, bad := range [][]string{nil, {"a\x00b"}} {
		got, err := Quote(bad)
		check.That(t, err != nil, "quote(%q) is %s, want an error", bad, got)
	}
}

// nasty are words that some shell or other sees more in.
func nasty() []string {
	words := []string{"", " ", "a b", "it's", `"`, `\`, `\\`, `\'`, `'\''`, `a\`, "!", "!!", "a!b", "$HOME", "${x}",
		"$(id)", "`id`",
		"*", "?", "[a]", "{a,b}", "~", "~root", "#", "a#b", ";", "&", "|", "<", ">", "(", ")", "^", "%", "=ls", "A=b",
		"-n",
		"\t", "é", "日本", "\x7f", "\x01", "--", "@", ":", ","}
	var all strings.Builder
	for b := 1; b < 128; b++ {
		if b != '\n' {
			all.WriteByte(byte(b))
		}
	}
	return append(words, all.String())
}

// TestQuoteInShells has every shell at hand split what quote has joined.
func TestQuoteInShells(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "tcsh", "fish", "ksh", "csh"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil && shell == "sh" {
				lab.Skip(t, "needs sh")
			} else if err != nil {
				t.Skip(err) // in CI too: .ci/setup installs some shells
			}
			words := nasty()
			if !strings.HasSuffix(shell, "csh") {
				words = append(words, "line\nbreak", "\n")
			}
			line := must.Get(Quote(append([]string{"/usr/bin/printf", `%s\0`}, words...)))(t)
			cmd := exec.Command(path, "-c", line)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // fish leaves files there
			out, err := cmd.Output()
			if err != nil {
				var exit *exec.ExitError
				errors.As(err, &exit)
				t.Fatalf("%v: %s", err, exit.Stderr)
			}
			got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			for i := range words {
				if i >= len(got) || got[i] != words[i] {
					t.Errorf("word %d is %q, want %q", i, got[min(i, len(got)-1)], words[i])
				}
			}
		})
	}
}

// split is how sh splits a line of quote's making. Anything else is an error.
func split(line string, inQuotes func(string) (string, string, error)) ([]string, error) {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-"
	var words []string
	var word strings.Builder
	begun := false
	for line != "" {
		switch c := line[0]; {
		case c == ' ':
			if !begun {
				return nil, errors.New("two blanks")
			}
			words = append(words, word.String())
			word.Reset()
			begun = false
			line = line[1:]
			continue
		case c == '\'':
			part, rest, err := inQuotes(line[1:])
			if err != nil {
				return nil, err
			}
			word.WriteString(part)
			line = rest
		case c == '\\' && len(line) > 1 && strings.IndexByte(`'\!`, line[1]) >= 0:
			word.WriteByte(line[1])
			line = line[2:]
		case !strings.ContainsRune(bare, rune(c)):
			return nil, errors.New("a bare special character")
		default:
			word.WriteByte(c)
			line = line[1:]
		}
		begun = true
	}
	if !begun {
		return nil, errors.New("a blank at the end")
	}
	return append(words, word.String()), nil
}

// posixQuotes ends at the next quote, whatever is before it.
func posixQuotes(text string) (part, rest string, err error) {
	part, rest, ok := strings.Cut(text, "'")
	if !ok {
		return "", "", errors.New("no closing quote")
	}
	return part, rest, nil
}

// strictQuotes accepts only what csh and fish read in the same way.
func strictQuotes(text string) (part, rest string, err error) {
	part, rest, err = posixQuotes(text)
	if strings.ContainsAny(part, `\!`) {
		return "", "", errors.New(`\ or ! inside quotes`)
	}
	return part, rest, err
}

func FuzzQuote(f *testing.F) {
	f.Add("a", "b c")
	f.Add("it's", `\!`)
	for _, word := range nasty() {
		f.Add(word, word+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		argv := []string{a, b}
		line, err := Quote(argv)
		if err != nil {
			must.That(t, strings.ContainsRune(a+b, 0), "%v", err)
			return
		}
		for _, rule := range []func(string) (string, string, error){posixQuotes, strictQuotes} {
			got, err := split(line, rule)
			check.That(t, err == nil && slices.Equal(got, argv), "%s splits into %q, want %q: %v", line, got, argv, err)
		}
	})
}
