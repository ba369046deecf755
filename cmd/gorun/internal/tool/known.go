package tool

import (
	"path"
	"slices"
	"strings"
)

// separator returns the word that a debugger needs before the command that it starts, or "".
func separator(tool string) string {
	switch name := path.Base(tool); {
	case strings.HasSuffix(name, "gdb"): // cuda-gdb and rocgdb, too
		return "--args"
	case strings.HasPrefix(name, "lldb"):
		return "--"
	}
	return ""
}

// prompts reports whether the tool reads commands from a terminal.
func (s spec) prompts() bool {
	if separator(s.words[0]) != "" {
		return !slices.ContainsFunc(s.words, func(w string) bool {
			return w == "-batch" || w == "--batch" || w == "-b"
		})
	}
	name := path.Base(s.words[0])
	if _, module := python(s.words); len(module) > 1 {
		name = module[1]
	}
	return slices.Contains([]string{"pdb", "pdb3", "ipdb", "ipdb3", "pudb", "pudb3"}, name)
}

// join returns the command of a tool that starts a program. A tool that is a Python module, such as
// python -m pdb, replaces the program's own Python command.
func join(tool, program []string) []string {
	if with, module := python(tool); len(module) > 1 && module[0] == "-m" {
		if by, started := python(program); started != nil {
			return slices.Concat(by, with[1:], module, started)
		}
	}
	if word := separator(tool[0]); word != "" && !slices.Contains(tool, word) {
		return slices.Concat(tool, []string{word}, program)
	}
	return slices.Concat(tool, program)
}

// python splits a command of Python into the interpreter with its options and what it runs: a
// script, or -m and a module, each with its arguments. For any other command run is nil.
func python(argv []string) (by, run []string) {
	if strings.TrimRight(path.Base(argv[0]), "0123456789.") != "python" {
		return nil, nil
	}
	by = argv[:1]
	for i := 1; i < len(argv); i++ {
		word := argv[i]
		if word == "-" || !strings.HasPrefix(word, "-") {
			return by, argv[i:]
		}
		if strings.HasPrefix(word, "--") {
			return nil, nil // --help, and options of the interpreter's developers
		}
		at := strings.IndexAny(word, "mcWX") // options that take the rest of the word, or else the next one
		switch {
		case at < 0:
			by = slices.Concat(by, []string{word})
		case word[at] == 'c':
			return nil, nil
		case word[at] == 'm':
			if at > 1 {
				by = slices.Concat(by, []string{word[:at]})
			}
			run = argv[i+1:]
			if module := word[at+1:]; module != "" {
				run = slices.Concat([]string{module}, run)
			}
			return by, slices.Concat([]string{"-m"}, run)
		default:
			by = slices.Concat(by, []string{word})
			if at == len(word)-1 && i+1 < len(argv) {
				i++
				by = append(by, argv[i])
			}
		}
	}
	return nil, nil
}
