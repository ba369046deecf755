package ssh

import (
	"errors"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// Quote joins argv to one command line that the remote user's login shell splits into argv again,
// as [prose.Quoted] does. A NUL is an error.
func Quote(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("no command to run")
	}
	for _, word := range argv {
		if strings.IndexByte(word, 0) >= 0 {
			return "", errors.New("a word of the command holds a NUL byte")
		}
	}
	return prose.Quoted(argv...), nil
}
