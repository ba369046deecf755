package settings

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// commandLine is a Flag.Command for a line that a shell of this machine runs.
func commandLine(value string, place func(string) string) string {
	line := strings.TrimLeft(value, " \t\n")
	end := strings.IndexAny(line, " \t\n;&|<>()")
	if end < 0 {
		end = len(line)
	}
	if strings.ContainsAny(line[:end], "'\"\\$`*?[{~=#!") { // the shell makes something else of it
		return value
	}
	return place(line[:end]) + line[end:]
}

// agentLines is a Flag.Command for commands of which the first one that is installed runs.
func agentLines(value string, place func(string) string) string {
	agents := strings.Split(value, " : ")
	for i, agent := range agents {
		agents[i] = commandLine(agent, place)
	}
	return strings.Join(agents, " : ")
}

// asTyped is a Flag.Command for arguments, and for a line that hosts run in the ranks' folder, in
// which its program is found as the ranks' is.
func asTyped(value string, _ func(string) string) string { return value }

// programFrom resolves the path of a program against dir. A name without a slash is looked for in
// PATH.
func programFrom(dir, program string) string {
	if !strings.Contains(program, "/") || filepath.IsAbs(program) {
		return program
	}
	path := filepath.Join(dir, program)
	if !strings.Contains(path, "/") {
		path = "./" + path
	}
	return prose.Quoted(path)
}

// CheckCommands returns an error if a command of the named flags would run or read another file
// when a run is started in another folder than dir, in spite of what [FileOf] does.
func CheckCommands(flags *pflag.FlagSet, names []string, dir string) error {
	for _, name := range names {
		known, found := FlagsByName()[name]
		if !found || known.Command == nil {
			continue
		}
		values := []string{flags.Lookup(name).Value.String()}
		if list, several := flags.Lookup(name).Value.(pflag.SliceValue); several {
			values = list.GetSlice()
		}
		for _, value := range values {
			if word := relativeWord(pathFrom(dir, "", name, value)); word != "" {
				return usage.Errorf("name it by its absolute path",
					"--%s: %s would be another file in a run that is started elsewhere", name, word)
			}
		}
	}
	return nil
}

// relativeWord returns a word of a command line that is a path below the current folder, or "".
// Only the first can be known by a slash.
func relativeWord(line string) string {
	words, _ := usage.SplitShell(line) // what it cannot split, a shell refuses as well
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"), strings.HasPrefix(word, "../"):
			return word
		case i == 0 && strings.Contains(word, "/") && word[0] != '/' && word[0] != '~' && word[0] != '$':
			return word
		}
	}
	return ""
}
