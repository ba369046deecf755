package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// longWords are options that other launchers spell with one dash, and the
// flags of ours that they mean. Each takes one value.
func longWords() map[string]string {
	return map[string]string{
		"np": "np", "hostfile": "hostfile", "machinefile": "hostfile", "host": "hosts", "hosts": "hosts",
		"wdir": "wdir", "wd": "wdir",
	}
}

// normalize rewrites argv for the flag parser: single-dash words become
// flags, and a -- goes before the program, so that nothing after it is ever ours. argv that
// begins with one of commands is left alone. It is pure.
func normalize(argv []string, flags *pflag.FlagSet, commands []string) []string {
	if len(argv) > 0 && slices.Contains(commands, argv[0]) {
		return argv
	}
	words := longWords()
	var out []string
	for i := 0; i < len(argv); i++ {
		arg := argv[i]
		if arg == "--" {
			return append(out, argv[i:]...)
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			return append(append(out, "--"), argv[i:]...)
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if long, known := words[name]; known {
			arg = "--" + long
			if hasValue {
				arg += "=" + value
			}
		}
		out = append(out, arg)
		if takesNext(arg, flags) && i+1 < len(argv) {
			i++
			out = append(out, argv[i])
		}
	}
	return out
}

// takesNext reports whether the value of arg is the next word.
func takesNext(arg string, flags *pflag.FlagSet) bool {
	if name, long := strings.CutPrefix(arg, "--"); long {
		f := flags.Lookup(name) // no flag has a = in its name
		return f != nil && f.NoOptDefVal == ""
	}
	// A cluster such as -vH: the last letter may want a value.
	for i := 1; i < len(arg); i++ {
		f := flags.ShorthandLookup(arg[i : i+1])
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" {
			return i == len(arg)-1
		}
	}
	return false
}

// nearest returns the candidate that word most likely meant, or "".
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+len(word)/3
	for _, c := range candidates {
		if d := editDistance(word, c); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and substitutions between a
// and b (Wagner and Fischer, 1974).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
