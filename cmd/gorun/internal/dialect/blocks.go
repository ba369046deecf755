package dialect

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/usage"
)

// Block is one of several programs and its own flags.
type Block struct {
	Args    []string          // --flag=value
	Typed   map[string]string // gorun's flag → the word that the user typed
	Program []string
}

// readProgram takes the program and its arguments off rest, and returns the words after the colon
// that ends them. more reports such a colon; later means that this is not the first program.
func (t *translator) readProgram(later bool) (after []string, more bool, err error) {
	switch {
	case t.file.typed != "" && (later || slices.Contains(t.rest, ":")):
		return nil, false, usage.Errorf("name all programs in the file, or all on the command line",
			"%s cannot be combined with other programs", t.file.typed)
	case later && (len(t.rest) == 0 || len(t.rest) == 1 && t.rest[0] == "--"):
		return nil, false, usage.Errorf("name the program after the colon; a colon of the program's own is written "+
			"'\\:'", "no program after the last \":\"")
	case len(t.rest) == 0:
		return nil, false, nil
	case t.rest[0] == "--":
		t.program = t.rest[1:]
		return nil, false, nil
	case t.rest[0] == ":":
		return nil, false, usage.Errorf("for example: gorun -np 1 ./server : -np 4 ./worker", "no program before \":\"")
	}
	words, after, more := cutAtColon(t.rest)
	t.program = t.asProgram(words)
	if more && len(after) == 0 {
		return nil, false, usage.Errorf("leave the colon out; one of the program's own is written '\\:'",
			"nothing stands after \"%s :\"", t.program[0])
	}
	return after, more, nil
}

// cutAtColon cuts words at the first colon that stands alone and unescapes \: elsewhere.
func cutAtColon(words []string) (program, after []string, found bool) {
	end := slices.Index(words, ":")
	if end >= 0 {
		after = words[end+1:]
		words = words[:end]
	}
	program = slices.Clone(words)
	for i, w := range program {
		if w == `\:` {
			program[i] = ":"
		}
	}
	return program, after, end >= 0
}

// joinBlocks joins the translations of blocks into that of the command line.
func joinBlocks(read []*translator, flags *pflag.FlagSet) (Line, error) {
	first := read[0]
	if len(read) == 1 {
		if err := first.takeProgramFile(); err != nil {
			return first.Line, err
		}
		if first.program != nil {
			first.Args = append(append(first.Args, "--"), first.program...)
		}
		return first.Line, nil
	}
	job := Line{
		Typed:    map[string]string{},
		Dialect:  first.Dialect,
		defaults: first.defaults,
		faulty:   first.faulty,
	}
	for i, t := range read {
		job.Add(t.Line)
		b, err := t.split(&job, i == 0, flags)
		if err != nil {
			return job, err
		}
		job.Blocks = append(job.Blocks, b)
	}
	job.Args = append(append(job.Args, "--"), first.program...)
	return job, nil
}

// split splits the flags of a block into the program's own, which it returns, and the job's, which
// it adds to job.
func (t *translator) split(job *Line, first bool, flags *pflag.FlagSet) (Block, error) {
	b := Block{Typed: map[string]string{}, Program: t.program}
	var ofJob Line
	ofJob.Typed = map[string]string{}
	for i, arg := range t.Args {
		flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if ofProgram(flag, t.typedAs[i]) && !(first && flag == "hostfile") {
			b.Args = append(b.Args, arg)
			b.Typed[flag] = t.typedAs[i]
			continue
		}
		if err := contradicts(job, flags.Lookup(flag), arg, t.typedAs[i]); err != nil {
			return b, err
		}
		ofJob.Args = append(ofJob.Args, arg)
		ofJob.Typed[flag] = t.typedAs[i]
	}
	job.Args = append(job.Args, ofJob.Args...)
	for flag, word := range ofJob.Typed {
		job.Typed[flag] = word
	}
	if b.Typed["np"] == "" {
		if t.dialect != Hydra {
			return b, usage.Errorf("with several programs, each needs its own -np: -np 1 "+t.program[0],
				"%s has no -np", t.program[0])
		}
		b.Args = append(b.Args, "--np=1")
	}
	return b, nil
}

// ofProgram reports whether a flag applies to one program; other flags apply to the job.
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

// contradicts returns an error for a job flag that an earlier block has with another value, unless
// the flag is repeatable.
func contradicts(job *Line, f *pflag.Flag, arg, typed string) error {
	if f == nil || slices.Contains([]string{"stringArray", "count"}, f.Value.Type()) {
		return nil
	}
	valueOf := func(arg string) string {
		if _, value, given := strings.Cut(arg, "="); given {
			return value
		}
		return f.NoOptDefVal
	}
	for _, before := range job.Args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(before, "--"), "="); name == f.Name &&
			valueOf(before) != valueOf(arg) {
			return usage.Errorf("it applies to the whole job: give it once, before the first program",
				"%s %s of one program and %s %s of another contradict each other", job.Typed[f.Name], valueOf(before),
				typed, valueOf(arg))
		}
	}
	return nil
}
