package session

import (
	_ "embed"
	"strings"
)

// codeUnsafe is the exit code of the scripts where another user could change what would run.
const codeUnsafe = 83

// Shell that runs on hosts. See the files for what each does.
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

// oneLine joins scripts without their comments to a single line, which must have no ' \\ and !: so every login shell hands it to sh
// unchanged. What varies comes as arguments. Scripts need a POSIX shell, ls and what else they name.
func oneLine(files ...string) string {
	var words []string
	for _, file := range files {
		for line := range strings.Lines(file) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				words = append(words, line)
			}
		}
	}
	return strings.Join(words, " ")
}

// onHost is the command that runs the gorun at path on conn, if nobody else could have put it there.
func onHost(conn Host, path string, args ...string) []string {
	if _, local := conn.(Local); local {
		return append([]string{path}, args...)
	}
	return append([]string{"/bin/sh", "-c", startScript(), "gorun-start", path}, args...)
}
