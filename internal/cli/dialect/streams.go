package dialect

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// readStreams translates flags about standard input and output.
func (t *translator) readStreams(reader, typed, text string) error {
	switch reader {
	case "srun-input":
		return t.srunInput(typed, text)
	case "output-filename":
		return t.outputDir(typed, text)
	case "hydra-outfile":
		return t.saveAs(typed, text, "rrhh%%", "stdout-file")
	case "hydra-errfile":
		return t.saveAs(typed, text, "rrhh%%", "stderr-file")
	case "srun-output":
		return t.srunOutput(typed, text, "stdout-file", "stderr-file")
	case "srun-error":
		return t.srunOutput(typed, text, "stderr-file")
	case "redirects":
		return t.redirect(typed, text, &t.redirected)
	case "tee":
		return t.redirect(typed, text, &t.teed)
	}
	return nil
}

// streamsSay describes the translations of readStreams.
func streamsSay(reader string) string {
	switch reader {
	case "srun-input":
		return "--stdin VALUE; a file is refused: let the shell open it"
	case "output-filename":
		return "--output-filename VALUE, without what follows a colon; with nocopy there, --hide all"
	case "hydra-outfile":
		return "--stdout-file VALUE, with %r and %h"
	case "hydra-errfile":
		return "--stderr-file VALUE, with %r and %h"
	case "srun-output":
		return "--stdout-file and, without --error, --stderr-file, with %r for %t, %h for %N, and %j; none is /dev/null"
	case "srun-error":
		return "--stderr-file, likewise"
	case "redirects":
		return "1 is --hide stdout, 2 --hide stderr, 3 --hide all, less what --tee names; a map of ranks is refused"
	case "tee":
		return "shown, also what --redirects names; --log-dir keeps a copy"
	}
	return ""
}

// srunInput translates srun's --input: a rank, all or none. The shell must open files.
func (t *translator) srunInput(typed, text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err == nil || text == "all" || text == "none" {
		return t.emit("stdin", typed, []string{text})
	}
	if strings.Trim(text, "0123456789,- ") == "" {
		return usage.Errorf("name one rank, or say "+typed+" all", "%s %s: standard input goes to one rank, or to all", typed, text)
	}
	return usage.Errorf("let the shell open it: "+typed+" all <"+text, "%s %s: gorun does not support it", typed, text)
}

// saveAs translates a file name pattern of srun or Hydra. names holds pairs of their letters and gorun's. A word for
// both streams yields to one for a single stream.
func (t *translator) saveAs(typed, pattern, names string, flags ...string) error {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		b.WriteByte(pattern[i])
		if pattern[i] != '%' {
			continue
		}
		for i++; i < len(pattern) && '0' <= pattern[i] && pattern[i] <= '9'; i++ {
			b.WriteByte(pattern[i])
		}
		at := -1
		if i < len(pattern) {
			at = strings.IndexByte(names, pattern[i])
		}
		if at < 0 || at%2 != 0 {
			return usage.Errorf("--stdout-file and --stderr-file know %r (rank), %h (host), %l (rank on its host) and %j (the job's number in Slurm)",
				"%s %s: gorun does not support it", typed, pattern)
		}
		b.WriteByte(names[at+1])
	}
	for i, flag := range flags {
		if other := t.Typed[flag]; i > 0 && other != "" && other != typed {
			continue
		}
		if err := t.emit(flag, typed, []string{b.String()}); err != nil {
			return err
		}
	}
	return nil
}

// srunOutput translates srun's --output and --error: a pattern, or none.
func (t *translator) srunOutput(typed, text string, flags ...string) error {
	switch _, err := strconv.Atoi(text); {
	case text == "all":
		return nil
	case text == "none":
		text = os.DevNull
	case err == nil:
		return usage.Errorf("--show "+text+" shows one rank only", "%s %s: gorun does not support it", typed, text)
	}
	return t.saveAs(typed, text, "trNhjj%%", flags...)
}

// streams is a set of output streams in torchrun's bits: 1 stdout, 2 stderr.
type streams uint8

// String is how --hide names them.
func (s streams) String() string { return [...]string{"none", "stdout", "stderr", "all"}[s&3] }

// redirect translates torchrun's --redirects and --tee: 0 none, 1 stdout, 2 stderr, 3 both. Redirected output goes to
// files only, unless it is in --tee.
func (t *translator) redirect(typed, text string, to *streams) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > 3 {
		return usage.Errorf("give one number for all ranks: 0 none, 1 stdout, 2 stderr, 3 both; --show 0,2 shows some ranks only",
			"%s %s: gorun does not support it", typed, text)
	}
	*to = streams(n)
	h := t.redirected &^ t.teed
	if h == 0 && t.Typed["hide"] == "" {
		return nil
	}
	return t.emit("hide", typed, []string{h.String()}) // the last value wins
}

// outputDir translates Open MPI's output directory; DIR:nocopy writes files only.
func (t *translator) outputDir(typed, text string) error {
	dir, qualifiers, _ := strings.Cut(text, ":")
	if err := t.emit("output-filename", typed, []string{dir}); err != nil {
		return err
	}
	if !slices.Contains(strings.Split(qualifiers, ","), "nocopy") {
		return nil
	}
	return t.emit("hide", typed, []string{"all"})
}
