package rankenv

import (
	"slices"
	"strings"
)

// wrapper describes the options of a program that runs a command, to find where the command begins.
type wrapper struct {
	letters  string // short options that take a value
	long     string // long options that take a value, separated by spaces
	all      bool   // whether every option takes a value
	words    int    // words before the command
	verbs    string // permitted first words; "": any
	variable bool   // whether NAME=value words may precede the command, and -S splits a word
}

// wrapperNamed returns the wrapper of a program that often precedes a container program.
func wrapperNamed(name string) (w wrapper, known bool) {
	switch name {
	case "env":
		w = wrapper{letters: "uCa", long: "unset chdir argv0", variable: true}
	case "time":
		w = wrapper{letters: "fo", long: "format output"}
	case "timeout":
		w = wrapper{letters: "ks", long: "kill-after signal", words: 1}
	case "nice":
		w = wrapper{letters: "n", long: "adjustment"}
	case "ionice":
		w = wrapper{letters: "cnpPu", long: "class classdata pid pgid uid"}
	case "numactl":
		w = wrapper{letters: "iwpPmNC", long: "interleave weighted-interleave preferred preferred-many membind " +
			"cpunodebind physcpubind"}
	case "taskset":
		w = wrapper{words: 1}
	case "chrt":
		w = wrapper{letters: "TPDp", long: "sched-runtime sched-period sched-deadline pid", words: 1}
	case "stdbuf":
		w = wrapper{letters: "ioe", long: "input output error"}
	case "strace":
		w = wrapper{letters: "abeEIoOpPsSuUX",
			long: "output string-limit columns expr trace signal status abbrev verbose raw read write inject fault " +
				"env user attach interruptible trace-path summary-columns summary-sort-by summary-syscall-overhead " +
				"const-print-style argv0"}
	case "nsys":
		w = wrapper{all: true, verbs: "profile launch"}
	case "setsid", "nohup":
	default:
		return w, false
	}
	return w, true
}

// command returns the command in args, the words after the wrapper's name.
func (w wrapper) command(args []string) []string {
	if w.verbs != "" {
		if len(args) == 0 || !slices.Contains(strings.Fields(w.verbs), args[0]) {
			return nil
		}
		args = args[1:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option := args[0]
		args = args[1:]
		if option == "--" {
			break
		}
		if text, rest, is := w.split(option, args); is {
			args = append(strings.Fields(text), rest...)
			continue
		}
		if w.takesNext(option) {
			args = args[min(1, len(args)):]
		}
	}
	args = args[min(w.words, len(args)):]
	for w.variable && len(args) > 0 && strings.Contains(args[0], "=") {
		args = args[1:]
	}
	return args
}

// takesNext reports whether the value of an option is the next word.
func (w wrapper) takesNext(option string) bool {
	name, long := strings.CutPrefix(option, "--")
	switch {
	case strings.Contains(option, "="):
		return false
	case w.all:
		return option != "-h" && option != "--help" && option != "-v" && option != "--version"
	case long:
		return slices.ContainsFunc(strings.Fields(w.long), func(l string) bool { return strings.HasPrefix(l, name) })
	}
	i := strings.IndexAny(option, w.letters) // the letters after it are its value
	return i > 0 && i == len(option)-1
}

// split returns the text that env -S splits into words, and the words after it.
func (w wrapper) split(option string, args []string) (text string, rest []string, is bool) {
	if !w.variable {
		return "", nil, false
	}
	if text, is = strings.CutPrefix(option, "--split-string="); is {
		return text, args, true
	}
	text = ""
	attached := false
	if option != "--split-string" {
		i := strings.IndexAny(option, "S"+w.letters)
		if strings.HasPrefix(option, "--") || i < 0 || option[i] != 'S' {
			return "", nil, false
		}
		text = option[i+1:]
		attached = text != ""
	}
	if attached || len(args) == 0 {
		return text, args, true
	}
	return args[0], args[1:], true
}
