package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// block is one of several programs and the flags that are its own.
type block struct {
	args    []string          // --flag=value
	typed   map[string]string // a flag of ours → the word it was typed as
	program []string
}

// readProgram takes the program and its arguments off rest, and returns what stands after the colon
// that ends them; more says that there is one. later says that this is not the first program.
func (t *translator) readProgram(later bool) (after []string, more bool, err error) {
	switch {
	case t.file.typed != "" && (later || slices.Contains(t.rest, ":")):
		return nil, false, usagef("name all programs in the file, or all on the command line", "%s stands beside other programs", t.file.typed)
	case later && (len(t.rest) == 0 || len(t.rest) == 1 && t.rest[0] == "--"):
		return nil, false, usagef("name the program after the colon; a colon of the program's own is written '\\:'", "no program stands after the last \":\"")
	case len(t.rest) == 0:
		return nil, false, nil
	case t.rest[0] == "--":
		t.program = t.rest[1:]
		return nil, false, nil
	case t.rest[0] == ":":
		return nil, false, usagef("for example: gorun -np 1 ./server : -np 4 ./worker", "no program stands before \":\"")
	}
	words, after, more := cutAtColon(t.rest)
	t.program = t.asProgram(words)
	if more && len(after) == 0 {
		return nil, false, usagef("leave the colon out; one of the program's own is written '\\:'", "nothing stands after \"%s :\"", t.program[0])
	}
	return after, more, nil
}

// cutAtColon cuts words at the first colon that stands alone. \: is a colon of the program's. It is pure.
func cutAtColon(words []string) (program, after []string, found bool) {
	end := slices.Index(words, ":")
	if end >= 0 {
		words, after = words[:end], words[end+1:]
	}
	program = slices.Clone(words)
	for i, w := range program {
		if w == `\:` {
			program[i] = ":"
		}
	}
	return program, after, end >= 0
}

// joinBlocks is the translation of a command line from those of its blocks.
func joinBlocks(read []*translator, flags *pflag.FlagSet) (translation, error) {
	first := read[0]
	if len(read) == 1 {
		if err := first.fileOf(); err != nil {
			return first.translation, err
		}
		if first.program != nil {
			first.args = append(append(first.args, "--"), first.program...)
		}
		return first.translation, nil
	}
	job := translation{typed: map[string]string{}}
	for i, t := range read {
		job.add(t.translation)
		b, err := t.split(&job, i == 0, flags)
		if err != nil {
			return job, err
		}
		job.blocks = append(job.blocks, b)
	}
	job.args = append(append(job.args, "--"), first.program...)
	return job, nil
}

// split parts the flags of a block into its program's and the job's, which go to job.
func (t *translator) split(job *translation, first bool, flags *pflag.FlagSet) (block, error) {
	b := block{typed: map[string]string{}, program: t.program}
	var ofJob translation
	ofJob.typed = map[string]string{}
	for i, arg := range t.args {
		flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if ofProgram(flag, t.typedAs[i]) && !(first && flag == "hostfile") {
			b.args = append(b.args, arg)
			b.typed[flag] = t.typedAs[i]
			continue
		}
		if err := contradicts(job, flags.Lookup(flag), arg, t.typedAs[i]); err != nil {
			return b, err
		}
		ofJob.args = append(ofJob.args, arg)
		ofJob.typed[flag] = t.typedAs[i]
	}
	job.args = append(job.args, ofJob.args...)
	for flag, word := range ofJob.typed {
		job.typed[flag] = word
	}
	if b.typed["np"] == "" {
		if t.dialect != Hydra {
			return b, usagef("every program of a job of several says how many ranks it has: -np 1 "+t.program[0], "%s has no -np", t.program[0])
		}
		b.args = append(b.args, "--np=1")
	}
	return b, nil
}

// ofProgram reports whether a flag says something about one program: other flags are about the job.
func ofProgram(flag, typed string) bool {
	switch flag {
	case "np", "wdir", "hosts", "hostfile":
		return true
	case "export", "no-env":
		word := normalizeDashes(strings.TrimLeft(typed, "-"))
		return slices.Contains([]string{"x", "export", "set-env", "env", "envlist", "envnone"}, word)
	}
	return false
}

// contradicts is the error for a flag of the job that an earlier program has with another value; a
// flag that may be repeated adds up.
func contradicts(job *translation, f *pflag.Flag, arg, typed string) error {
	if f == nil || slices.Contains([]string{"stringArray", "count"}, f.Value.Type()) {
		return nil
	}
	valueOf := func(arg string) string {
		if _, value, given := strings.Cut(arg, "="); given {
			return value
		}
		return f.NoOptDefVal
	}
	for _, before := range job.args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(before, "--"), "="); name == f.Name && valueOf(before) != valueOf(arg) {
			return usagef("it holds for the whole job: give it once, before the first program",
				"%s %s of one program and %s %s of another contradict each other", job.typed[f.Name], valueOf(before), typed, valueOf(arg))
		}
	}
	return nil
}
