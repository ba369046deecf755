package job

import (
	"slices"
	"strings"
	"unicode"
)

// missed returns the withheld variables whose absence may have failed a rank, by the last lines of
// its stderr: those that the lines name, or all if the lines speak of authorization.
func missed(withheld, lines []string) []string {
	text := strings.Join(lines, "\n")
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	named := slices.DeleteFunc(slices.Clone(withheld), func(name string) bool { return !slices.Contains(words, name) })
	if len(named) > 0 {
		return named
	}
	text = strings.ToLower(text)
	speaks := func(sign string) bool { return strings.Contains(text, sign) }
	if slices.ContainsFunc([]string{"authoriz", "authentic", "forbidden", "credential", "access denied",
		"accessdenied", "api key", "api_key", "apikey", "log in", "login"}, speaks) {
		return withheld
	}
	return nil
}
