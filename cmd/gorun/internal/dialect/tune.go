package dialect

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/usage"
)

// tuning is a file of settings of Open MPI.
type tuning struct{ typed, name string }

// tune reads mpirun's --tune and --am: names of files, separated by commas. Line.WithFile reads
// them.
func (t *translator) tune(typed, text string) error {
	for name := range strings.SplitSeq(text, ",") {
		t.tuned = append(t.tuned, tuning{typed, name})
	}
	return nil
}

// withTuning adds the settings of files before those of the command line, which win.
func (t Line) withTuning(flags *pflag.FlagSet) (Line, error) {
	for _, from := range slices.Backward(t.tuned) {
		args, read, err := from.read(flags)
		if err != nil {
			return t, usage.Errorf(usage.Hint(err), "%s %s: %w", from.typed, from.name, err)
		}
		t.Args = append(args, t.Args...)
		t.Add(read)
		for flag := range read.Typed {
			if t.Typed[flag] == "" {
				t.Typed[flag] = from.typed
			}
		}
	}
	t.tuned = nil
	return t, nil
}

// read translates a file: words such as -x and -mca with their values, or lines NAME = VALUE.
func (f tuning) read(flags *pflag.FlagSet) ([]string, Line, error) {
	text, err := readProgramFile(programFile{typed: f.typed, name: f.name})
	if err != nil {
		return nil, Line{}, err
	}
	t := newTranslator(OpenMPI, flags, readTable())
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		words, err := usage.SplitScript(line)
		if err != nil {
			return nil, t.Line, usage.Errorf("", "%q: %w", beginning(line), err)
		}
		if len(words) == 0 {
			continue
		}
		if name, value, set := strings.Cut(strings.Join(words, " "), "="); !strings.HasPrefix(words[0], "-") && set {
			words = []string{"-mca", strings.TrimSpace(name), strings.TrimSpace(value)}
		}
		for t.rest = words; len(t.rest) > 0; {
			word := strings.TrimLeft(t.rest[0], "-")
			if !strings.HasPrefix(t.rest[0], "-") ||
				!slices.Contains([]string{"x", "mca", "gmca", "omca", "gomca", "prtemca", "pmixmca"}, word) {
				return nil, t.Line, usage.Errorf("it holds -x NAME=VALUE, -mca NAME VALUE, or a line NAME = VALUE "+
					"for each setting", "%q is no setting", usage.Clipped(t.rest[0]))
			}
			if err := t.next(); err != nil {
				return nil, t.Line, err
			}
		}
	}
	return t.Args, t.Line, t.finish()
}

// emitInstalled puts the folders of mpirun's --prefix DIR before PATH and LD_LIBRARY_PATH, also
// where -x gives these.
func (t *translator) emitInstalled() {
	if t.installed == "" {
		return
	}
	for _, variable := range [][2]string{{"PATH", "bin"}, {"LD_LIBRARY_PATH", "lib"}} {
		name := variable[0]
		value := os.Getenv(variable[0])
		for i, arg := range slices.Backward(t.Args) {
			if set, is := strings.CutPrefix(arg, "--export="+name); is && (set == "" || set[0] == '=') {
				if set != "" {
					value = set[1:]
				}
				t.Args = slices.Delete(t.Args, i, i+1)
				t.typedAs = slices.Delete(t.typedAs, i, i+1)
			}
		}
		folders := path.Join(t.installed, variable[1])
		if value != "" {
			folders += ":" + value
		}
		t.emit("export", t.installedTyped, name+"="+folders)
	}
}
