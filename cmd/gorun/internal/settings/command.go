package settings

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// ends are the characters that end a word of a shell.
const ends = " \t\n;&|<>()"

// starts reports whether a word of a shell starts the command behind it.
func starts(word string) bool {
	return slices.Contains([]string{"!", "command", "env", "exec", "nice", "nohup", "setsid", "time"}, word)
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
	for rest := line; ; {
		raw, word, plain := firstWord(rest)
		behind := rest[len(raw):]
		next := strings.TrimLeft(behind, " \t\n")
		switch {
		case raw == "", strings.Contains(raw, "$("), strings.Contains(raw, "`"):
			return value
		case assigns(raw), starts(raw):
			if next == behind { // the end, or what is no command
				return value
			}
			rest = next
			continue
		case !plain: // the shell makes something else of it
			return value
		}
		placed := place(word)
		if placed == word {
			return value
		}
		return line[:len(line)-len(rest)] + placed + behind
	}
}

// firstWord returns the word of a shell that a line begins with: as it is written, without quotes,
// and whether it is plain, which the shell changes no further.
func firstWord(line string) (raw, word string, plain bool) {
	var text strings.Builder
	plain = true
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != '\'' && c == '\\':
			plain = false
			i++
			continue
		case quote != 0 && c == quote:
			quote = 0
			continue
		case quote == '\'':
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			continue
		case quote == 0 && strings.IndexByte(ends, c) >= 0:
			return line[:i], text.String(), plain
		case strings.IndexByte("$`", c) >= 0 || quote == 0 && strings.IndexByte("*?[{~=#!", c) >= 0:
			plain = false
		}
		text.WriteByte(c)
	}
	return line, text.String(), plain && quote == 0
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

// interprets reports whether a program runs the file that is its first argument.
func interprets(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "perl", "python", "python3"}, word)
}

// precedes reports whether a command begins behind a word of a shell, or of a list of agents.
func precedes(word string) bool {
	return slices.Contains([]string{";", ":", "{", "if", "then", "elif", "else", "while", "until", "do"}, word)
}

// apart sets what separates the commands of a line apart from its words.
func apart(line string) string {
	return strings.NewReplacer(";", " ; ", "&", " ; ", "|", " ; ", "(", " ; ", ")", " ; ", "`", " ; ", "\n", " ; ").
		Replace(line)
}

// relativeWord returns a word of a command line that is a path below the current folder, or "". By
// a slash alone only the program of a command is known to be one.
func relativeWord(line string) string { return relativeIn(line, true) }

// relativeProgram is relativeWord for the programs of commands, and for files that they run.
func relativeProgram(line string) string { return relativeIn(line, false) }

func relativeIn(line string, arguments bool) string {
	words, _ := usage.SplitShell(apart(line)) // what it cannot split, a shell refuses as well
	begins := true
	for _, word := range words {
		switch {
		case begins && (assigns(word) || strings.HasPrefix(word, "-")):
			continue
		case begins && strings.Contains(word, "/") && strings.IndexByte("/~$", word[0]) < 0:
			return word
		case arguments && (strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")):
			return word
		}
		begins = starts(word) || interprets(word) || precedes(word)
	}
	return ""
}

// checkPrograms returns an error if a command of a file of defaults runs another program in each
// folder in which a run is started.
func (s settings) checkPrograms() error {
	for _, v := range s.list {
		if FlagsByName()[v.flag].Command == nil {
			continue
		}
		for _, value := range v.values {
			if word := relativeProgram(value); word != "" {
				return usage.Errorf("name it by its absolute path",
					"%s:%d: %s: %s would be another file in each folder", s.name, v.line, v.flag, word)
			}
		}
	}
	return nil
}
