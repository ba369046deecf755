package session

import (
	_ "embed"
	"strings"
)

// Exit codes of the scripts.
const (
	codeUnsafe = 83 // another user could change the program
	codeAbsent = 85 // there is no program
)

// Shell scripts that run on hosts. Each file begins with its description.
var (
	//go:embed trust.sh
	trustFile string
	//go:embed bases.sh
	basesFile string
	//go:embed whole.sh
	wholeFile string
	//go:embed start.sh
	startFile string
	//go:embed upload.sh
	uploadFile string
)

func startScript() string  { return oneLine(trustFile, basesFile, wholeFile, startFile) }
func uploadScript() string { return oneLine(trustFile, basesFile, uploadFile) }

// oneLine joins scripts, without comments, to a single line. It must not contain ' \\ or !, so that
// every login shell passes it to sh unchanged. Variable parts are arguments. Scripts need a POSIX
// shell, ls, grep and the commands that they name.
func oneLine(files ...string) string {
	var b strings.Builder
	for _, file := range files {
		for line := range strings.Lines(file) {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			b.WriteString(line)
			if endsCommand(line) {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// endsCommand reports whether a line of a script ends with a command, and not within a compound
// one. A line that ends with a pattern of case has no parenthesis before its last.
func endsCommand(line string) bool {
	words := strings.Fields(line)
	switch words[len(words)-1] {
	case "{", "(", "|", "&&", "||", ";;", "in", "do", "then", "else", "while":
		return false
	}
	return line == ")" || line[len(line)-1] != ')' || strings.Contains(line, "(")
}

// Command returns the command that runs the first gorun of at on conn, if no other user could have
// put it there.
func Command(conn Host, at Paths, args ...string) []string {
	if _, local := conn.(Local); local {
		return append([]string{at.Installed}, args...)
	}
	return append([]string{"/bin/sh", "-c", startScript(), "gorun-start", at.Installed, at.Cached}, args...)
}
