package settings

import (
	"path/filepath"
	"slices"
	"strings"
)

// position is a position in a command, for one of its words.
type position struct {
	kind  positionKind
	wraps bool // an argument may be a program, too
	// Letters that end an option of an interpreter behind which a text or a module comes, and no
	// file.
	texts string
}

type positionKind int

const (
	argument    positionKind = iota
	program                  // or a variable or an option before it
	script                   // the file that an interpreter runs, or an option before it
	optionValue              // of an option before the script
)

// after returns the position behind a word.
func (p position) after(word string) position {
	texts, interprets := interpreterOf(word)
	switch {
	case p.kind == optionValue:
		p.kind = script
	case p.kind == script && strings.HasPrefix(word, "-"):
		return p.afterOption(word)
	case p.kind == program && isBefore(word):
		p.wraps = p.wraps || strings.HasPrefix(word, "-") // the value of the option may come first
	case (p.kind == program || p.wraps) && interprets:
		p.kind = script
		p.texts = texts
	case p.kind == program && starts(word):
		p.wraps = p.wraps || isWrapper(word)
	default:
		p.wraps = p.wraps || p.kind == program && isWrapper(word)
		p.kind = argument
	}
	return p
}

// afterOption returns the position behind an option of an interpreter.
func (p position) afterOption(word string) position {
	switch last := word[len(word)-1:]; {
	case slices.Contains([]string{"--rcfile", "--init-file"}, word):
		p.kind = optionValue
	case strings.HasPrefix(word, "--"):
	case strings.Contains(p.texts, last) && p.texts == shellTexts:
		p.kind = program
	case strings.Contains(p.texts, last):
		p.kind = argument
	case slices.Contains([]string{"-o", "-W", "-X"}, word):
		p.kind = optionValue
	}
	return p
}

// runs reports whether a word here is, or may be, a program or a script below the current folder.
func (p position) runs(word string) bool {
	relative := word != "" && strings.IndexByte("/~$", word[0]) < 0
	switch {
	case p.kind == optionValue || p.kind == program && isBefore(word):
		return false
	case p.kind == script:
		return relative && !strings.HasPrefix(word, "-")
	}
	first, _, path := strings.Cut(word, "/")
	return relative && p.mayRun() && path && (p.kind == program || !isBefore(word) && !strings.Contains(first, ":"))
}

// mayRun reports whether a word here may be a program. Of the arguments of a program that runs
// another, options, variables, URLs and what is on other hosts, such as a:b/c, are none.
func (p position) mayRun() bool { return p.kind == program || p.kind == argument && p.wraps }

// isBefore reports whether a word is a variable or an option before a program.
func isBefore(word string) bool { return assigns(word) || strings.HasPrefix(word, "-") }

const shellTexts = "c"

// interpreterOf reports whether a program runs the file that is its first argument, for which it
// looks in the current folder first, and returns the letters of [position].texts.
func interpreterOf(word string) (texts string, is bool) {
	name := filepath.Base(word)
	if name == "." || name == "source" {
		return "", true
	}
	switch strings.TrimRight(name, "0123456789.") { // of python3.12, for example
	case "sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "tcsh", "yash", "zsh":
		return shellTexts, true
	case "perl":
		return "eE", true
	case "python", "pypy":
		return "cm", true
	}
	return "", false
}
