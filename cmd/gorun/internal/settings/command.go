package settings

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// separators are the characters between commands of a shell.
const separators = "\n;&|()"

// starts reports whether a word of a shell starts the command behind it.
func starts(word string) bool {
	return slices.Contains([]string{"!", "builtin", "busybox", "command", "env", "eval", "exec", "nice", "nohup",
		"setsid", "time"}, word)
}

// assigns reports whether a word of a shell sets a variable for the command behind it.
func assigns(word string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	name, _, found := strings.Cut(word, "=")
	return found && strings.Trim(name, letters+"0123456789") == "" && strings.IndexAny(name, letters) == 0
}

// commandLine is a Flag.Command for a line that a shell of this machine runs.
func commandLine(value string, place func(string) string) string {
	line := strings.TrimLeft(value, " \t\n")
	const operators = separators + "<>"
	words, _ := usage.SplitCommands(line, operators) // a shell refuses a line that it cannot split
	for _, w := range words {
		raw := line[w.At:w.End]
		switch {
		case strings.Contains(raw, "$("), strings.ContainsAny(raw, "`"), strings.Contains(operators, raw):
			return value
		case assigns(w.Text), starts(w.Text):
			continue
		case !w.Plain: // the shell makes something else of it
			return value
		}
		if placed := place(w.Text); placed != w.Text {
			return line[:w.At] + placed + line[w.End:]
		}
		return value
	}
	return value
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
			if word := relativeWord(pathFrom(dir, "", name, value), true); word != "" {
				return usage.Errorf("name it by its absolute path",
					"--%s: %s would be another file in a run that is started elsewhere", name, word)
			}
		}
	}
	return nil
}

// isWrapper reports whether a program runs another, which is one of its arguments.
func isWrapper(word string) bool {
	return slices.Contains([]string{"chrt", "doas", "env", "flock", "ionice", "nice", "numactl", "setpriv", "stdbuf",
		"sudo", "taskset", "timeout", "xargs"}, filepath.Base(word))
}

// precedes reports whether a command begins behind a word of a shell, or of a list of agents, as it
// is written.
func precedes(raw string) bool {
	return slices.Contains([]string{"\n", ";", "&", "|", "(", ")", "`", ":", "{",
		"if", "then", "elif", "else", "while", "until", "do"}, raw)
}

// relativeWord returns a word of a command line that is a path below the current folder, or "": the
// program of a command, a file that it runs, or an argument. By a slash alone no argument is known
// to be a path, but of those of a program that runs another.
func relativeWord(line string, arguments bool) string {
	words, _ := usage.SplitCommands(line, separators+"`") // as in commandLine
	at := position{kind: program}
	for _, w := range words {
		word := w.Text
		switch {
		case precedes(line[w.At:w.End]):
			at = position{kind: program}
			continue
		case at.mayRun() && strings.ContainsAny(word, " \t\n"):
			if found := relativeWord(word, arguments); found != "" {
				return found
			}
		case at.runs(word), arguments && (strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")):
			return word
		}
		if found := relativeWord(substituted(line[w.At:w.End]), false); found != "" {
			return found
		}
		at = at.after(word)
	}
	return ""
}

// substituted returns the commands in a word as it is written, between quotes, whose output a shell
// puts there. It may return what follows them, too.
func substituted(raw string) string {
	if literal := strings.HasPrefix(raw, "'") && strings.IndexByte(raw[1:], '\'') == len(raw)-2; literal {
		return ""
	}
	_, dollar, _ := strings.Cut(raw, "$(")
	_, back, _ := strings.Cut(raw, "`")
	return strings.ReplaceAll(cmp.Or(dollar, back), `"`, "")
}

// checkCommands returns an error if a command of a job file would run a program or file of the
// current folder, in spite of what relativeTo does.
func (s settings) checkCommands() error {
	for _, v := range s.list {
		place := FlagsByName()[v.flag].Command
		absolute := func(program string) string { return programFrom("/", program) }
		if place == nil || place("./x", absolute) == "./x" { // hosts run it, or it is arguments
			continue
		}
		for _, value := range v.values {
			if word := relativeWord(place(value, absolute), false); word != "" {
				return usage.Errorf("name it by its absolute path, or run gorun in the folder of the file",
					"%s:%d: %s: %s would be a file of the current folder", s.name, v.line, v.flag, word)
			}
		}
	}
	return nil
}

// checkPrograms returns an error if a command of a file of defaults runs another program in each
// folder in which a run is started.
func (s settings) checkPrograms() error {
	for _, v := range s.list {
		if FlagsByName()[v.flag].Command == nil {
			continue
		}
		for _, value := range v.values {
			if word := relativeWord(value, false); word != "" {
				return usage.Errorf("name it by its absolute path",
					"%s:%d: %s: %s would be another file in each folder", s.name, v.line, v.flag, word)
			}
		}
	}
	return nil
}
