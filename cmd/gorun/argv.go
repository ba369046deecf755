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
	var out []string
	for len(argv) > 0 {
		if argv[0] == "--" {
			return append(out, argv...)
		}
		if argv[0] == "-" || !strings.HasPrefix(argv[0], "-") {
			return append(append(out, "--"), argv...)
		}
		var flag []string
		flag, argv = normalizeFlag(argv, flags)
		out = append(out, flag...)
	}
	return out
}

// normalizeWords is normalize for a command that runs no program: flags may stand
// anywhere.
func normalizeWords(argv []string, flags *pflag.FlagSet) []string {
	var out []string
	for len(argv) > 0 {
		var flag []string
		flag, argv = normalizeFlag(argv, flags)
		out = append(out, flag...)
	}
	return out
}

// normalizeFlag rewrites the first word of argv, and takes its value along.
func normalizeFlag(argv []string, flags *pflag.FlagSet) (flag, rest []string) {
	arg, rest := argv[0], argv[1:]
	if !strings.HasPrefix(arg, "-") {
		return argv[:1], rest
	}
	name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
	if long, known := longWords()[name]; known {
		arg = "--" + long
		if hasValue {
			arg += "=" + value
		}
	}
	if takesNext(arg, flags) && len(rest) > 0 {
		return []string{arg, rest[0]}, rest[1:]
	}
	return []string{arg}, rest
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
