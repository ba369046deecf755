package settings

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/usage"
)

// ExplainUsage turns an error of the flag parser into one that names the user's word and the
// expected value. typed maps gorun's flags to the words that the user typed.
func ExplainUsage(err error, typed map[string]string) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	word := "--" + invalid.GetFlag().Name
	if t := typed[invalid.GetFlag().Name]; t != "" {
		word = t
	}
	hint := cmp.Or(usage.Hint(invalid.Unwrap()), flagHint(invalid.GetFlag(), word, invalid.GetValue()))
	return usage.Errorf(hint, "%s %q: %w", word, invalid.GetValue(), reason(invalid))
}

// reason returns why a flag rejects a value.
func reason(invalid *pflag.InvalidValueError) error {
	err := invalid.Unwrap()
	switch wrong := errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange); {
	case wrong && invalid.GetFlag().Value.Type() == "bool":
		return errors.New("expected true or false")
	case wrong:
		return errors.New("expected a whole number")
	}
	return err
}

// flagHint returns the nearest valid value, or an example of one.
func flagHint(flag *pflag.Flag, word, value string) string {
	if near := nearestWord(flag.Name, word, value); near != "" {
		return near
	}
	switch flag.Value.Type() {
	case "int", "N[:UNIT]":
		return "for example " + word + " 2"
	case "time":
		return "for example " + word + " 90s"
	case "failures":
		return "for example " + word + "=codes"
	case "bool":
		return "write " + word + " alone, or leave it out"
	}
	return "see gorun --help"
}

// nearestWord returns a hint that names the valid word that is most like a flag's value, or "".
func nearestWord(flag, typed, value string) string {
	if near := usage.Nearest(value, FlagsByName()[flag].Words); near != "" {
		return "did you mean " + typed + " " + near + "?"
	}
	return ""
}

// flagError is a usage error about the value of a flag, or about flags that contradict each other.
type flagError struct {
	error
	flag string // the first one
}

func (e *flagError) Unwrap() error { return e.error }

// faultOf returns a usage error that begins with the flag. A text that begins with a colon or an
// equals sign follows it without a blank.
func faultOf(flag, hint, format string, args ...any) error {
	word := "--" + flag
	if flag == "np" {
		word = "-np"
	}
	if format[0] != ':' && format[0] != '=' {
		word += " "
	}
	return &flagError{usage.Errorf(hint, "%s%w", word, fmt.Errorf(format, args...)), flag}
}
