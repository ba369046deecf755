package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
)

// maxProgramFile is the largest size of a file of programs in bytes.
const maxProgramFile = 16 << 20

// programFile is a file that lists a job's programs. The zero value is none.
type programFile struct {
	typed, name string
	dialect     Dialect // syntax: Slurm has ranks before each program, the others flags
}

// programs returns the reader of a flag that names a file of programs, written for a launcher.
func programs(launcher Dialect) reader {
	return func(t *translator, typed, text string) error {
		t.file = programFile{typed, text, launcher}
		return nil
	}
}

// takeProgramFile checks that a block with a program file has no program. The name of a file in
// srun's form stands in the program's place.
func (t *translator) takeProgramFile() error {
	switch {
	case t.file.typed == "":
		return nil
	case t.file.dialect != Slurm && t.program != nil:
		return usage.Errorf("leave one of them out", "%s %s says which programs run, and %s stands after it",
			t.file.typed, t.file.name, t.program[0])
	case t.file.dialect == Slurm && len(t.program) != 1:
		return usage.Errorf("for example: gorun -np 4 --multi-prog programs.conf",
			"%s needs one word after the flags, the name of its file", t.file.typed)
	case t.file.dialect == Slurm:
		t.file.name = t.program[0]
		t.program = nil
	}
	return nil
}

// WithFile adds the settings and programs of the files that the command line names, if any. flags
// are gorun's.
func (t Line) WithFile(flags *pflag.FlagSet) (Line, error) {
	t, err := t.withTuning(flags)
	if err != nil {
		return t, err
	}
	if t.file.typed == "" {
		return t, nil
	}
	text, err := readProgramFile(t.file)
	if err == nil && t.file.dialect == Slurm {
		t, err = t.withRanks(text)
	} else if err == nil {
		t, err = t.withBlocks(text, flags)
	}
	if err != nil {
		err = usage.Errorf(usage.Hint(err), "%s %s: %w", t.file.typed, t.file.name, err)
	}
	return t, err
}

func readProgramFile(from programFile) (string, error) {
	text, err := trust.ReadFile(from.name, maxProgramFile)
	if err != nil {
		return "", usage.Errorf(usage.FileHint(from.name, "check the name after "+from.typed), "%w", err)
	}
	return string(text), nil
}

// withBlocks adds the programs of a file of mpirun or Hydra, one with its flags per line. Flags of
// the command line apply to all.
func (t Line) withBlocks(text string, flags *pflag.FlagSet) (Line, error) {
	lines, err := programLines(text)
	if err != nil {
		return t, err
	}
	var words []string
	for i, line := range lines {
		if i > 0 {
			words = append(words, ":")
		}
		words = append(words, line...)
	}
	listed, err := translateAs(words, nil, t.file.dialect, flags, false)
	switch {
	case err != nil:
		return t, err
	case listed.file.typed != "":
		return t, usage.Errorf("write its lines into this file", "%s stands in the file itself", listed.file.typed)
	}
	t.Args = append(t.Args, listed.Args...)
	t.Blocks = listed.Blocks
	t.Add(listed)
	for flag, typed := range listed.Typed {
		t.Typed[flag] = typed
	}
	return t, nil
}

// withRanks adds the programs of a file of srun, ranks and a program per line.
func (t Line) withRanks(text string) (Line, error) {
	np := 0
	for _, arg := range t.Args {
		if value, is := strings.CutPrefix(arg, "--np="); is {
			np, _ = strconv.Atoi(value) // the flag parser reports a bad value
		}
	}
	lines, err := programLines(text)
	if err != nil {
		return t, err
	}
	t.Blocks, err = blocksByRank(lines, np)
	if err == nil {
		t.Args = append(append(t.Args, "--"), t.Blocks[0].Program...)
	}
	return t, err
}

// beginning returns a line up to its first value, which may be a secret.
func beginning(line string) string {
	begin, _, _ := strings.Cut(strings.TrimSpace(line), "=")
	return usage.Clipped(begin)
}

// programLines splits each line into words. A backslash continues a line, # begins a comment.
func programLines(text string) (lines [][]string, err error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " ")
	for line := range strings.Lines(text) {
		words, err := usage.SplitScript(line)
		if err != nil {
			return nil, usage.Errorf("", "%q: %w", beginning(line), err)
		}
		if len(words) > 0 {
			lines = append(lines, words)
		}
	}
	if len(lines) == 0 {
		return nil, usage.Errorf("", "it names no program")
	}
	return lines, nil
}

// blocksByRank returns the programs of np ranks from lines such as "0,2-3 prog %t %o": %t is the
// rank, %o its index in the line's ranks, and * stands for all unnamed ranks. With np 0, the lines
// determine the number of ranks.
func blocksByRank(lines [][]string, np int) ([]Block, error) {
	named := map[int][]string{} // key: rank
	var others []string
	for _, line := range lines {
		if len(line) < 2 {
			return nil, usage.Errorf("for example: 0,2-3 ./worker %t", "%q: expected ranks and a program",
				strings.Join(line, " "))
		}
		if line[0] == "*" {
			if others != nil {
				return nil, usage.Errorf("", "two lines for *")
			}
			others = line[1:]
			continue
		}
		if err := assignRanks(named, line); err != nil {
			return nil, err
		}
	}
	if np == 0 && others != nil {
		return nil, usage.Errorf("give the number of ranks: -np 4", "* stands for all other ranks, but -np is missing")
	}
	if np == 0 {
		np = len(named)
	}
	if last := slices.Max(append(slices.Collect(maps.Keys(named)), 0)); last >= np {
		return nil, usage.Errorf(fmt.Sprintf("ranks go from 0 to %d", np-1), "there is no rank %d", last)
	}
	var blocks []Block
	index := 0 // index of the next rank in *
	ranks := 0 // ranks of the last block
	for rank := range np {
		program, known := named[rank]
		if !known {
			if others == nil {
				return nil, usage.Errorf("add a line for it, or one for all others: * ./program", "no line for rank %d",
					rank)
			}
			program = withRank(others, rank, index)
			index++
		}
		if len(blocks) == 0 || !slices.Equal(blocks[len(blocks)-1].Program, program) {
			blocks = append(blocks, Block{Program: program})
			ranks = 0
		}
		ranks++
		blocks[len(blocks)-1].Args = []string{"--np=" + strconv.Itoa(ranks)}
	}
	return blocks, nil
}

// assignRanks assigns a line's program to its ranks.
func assignRanks(named map[int][]string, line []string) error {
	set, err := usage.ParseRanks(line[0])
	if err != nil {
		return usage.Errorf("for example: 0,2-3 ./worker %t", "%q: %w", line[0], err)
	}
	index := 0
	for _, span := range set {
		for rank := span[0]; rank <= span[1]; rank++ {
			if named[rank] != nil {
				return usage.Errorf("", "two lines for rank %d", rank)
			}
			named[rank] = withRank(line[1:], rank, index)
			index++
		}
	}
	return nil
}

// withRank replaces %t and %o, the rank and its index in the line, in a program's words.
func withRank(words []string, rank, index int) []string {
	replacer := strings.NewReplacer("%t", strconv.Itoa(rank), "%o", strconv.Itoa(index), "%%", "%")
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = replacer.Replace(w)
	}
	return out
}
