package dialect

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/usage"
)

// Marks of file names: pairs of a launcher's letter after % and gorun's.
const (
	hydraMarks = "rrhh%%"
	srunMarks  = "trNhjj%%"
)

// display reads Open MPI 5's list for --display.
func (t *translator) display(typed, list string) error {
	for item := range strings.SplitSeq(list, ",") {
		switch name, _, _ := strings.Cut(item, "="); name {
		case "map", "map-devel", "alloc", "allocation", "topo":
			t.emit("display-map", typed)
		case "bindings", "bind":
			t.emit("report-bindings", typed)
		default:
			return unsupported("gorun help compat lists what there is", typed+" "+item)
		}
	}
	return nil
}

// output reads Open MPI 5's list for --output: directives, and after a colon their qualifiers. A
// comma separates both.
func (t *translator) output(typed, list string) error {
	for item := range strings.SplitSeq(list, ",") {
		directive, qualifiers, _ := strings.Cut(item, ":")
		name, value, valued := strings.Cut(directive, "=")
		switch {
		case slices.Contains([]string{"tag", "tag-detailed", "tag-fullname"}, name):
			t.tag = "[1,%r]"
		case name == "rank":
			t.tag = "[%r]"
		case name == "merge" || name == "merge-stderr-to-stdout":
			t.emit("merge-stderr", typed)
		case name == "timestamp":
			t.tagTime = "[%T]"
		case valued && (name == "dir" || name == "directory"):
			t.emit("output-filename", typed, value)
		case valued && (name == "file" || name == "filename"): // Open MPI 5.0 shows nothing of it
			file := strings.ReplaceAll(value, "%", "%%")
			t.emit("stdout-file", typed, file+".%r.out")
			t.emit("stderr-file", typed, file+".%r.err")
		case name != "" || qualifiers == "":
			qualifiers = directive + ":" + qualifiers // a qualifier after a comma
		}
		if err := t.outputQualifiers(typed, item, qualifiers); err != nil {
			return err
		}
	}
	if t.tagTime+t.tag != "" {
		t.emit("prefix", typed, t.tagTime+t.tag+"<%s>: ")
	}
	return nil
}

// outputQualifiers translates what may follow a colon in --output and --output-filename.
func (t *translator) outputQualifiers(typed, item, qualifiers string) error {
	for q := range strings.FieldsFuncSeq(qualifiers, func(c rune) bool { return c == ':' || c == ',' }) {
		switch strings.ToLower(q) {
		case "nocopy":
			t.emit("hide", typed, "all")
		case "raw":
			t.Pending = append(t.Pending, typed+" raw")
		case "copy", "nojobid", "jobid":
		default:
			return unsupported("gorun help compat lists what there is", typed+" "+item)
		}
	}
	return nil
}

// byMPI reads horovodrun's --mpi, with which mpirun writes the output.
func (t *translator) byMPI(typed, _ string) error {
	t.emit("prefix", typed, "mpirun")
	t.replaced = append(t.replaced, typed+" is not needed: gorun starts the ranks itself, without mpirun "+
		"or jsrun, and they use Gloo, also where Horovod was built with MPI")
	return nil
}

// emitRole emits what torchrun's --tee puts before lines.
func (t *translator) emitRole() {
	if !t.logs.teed.any() || t.Typed["prefix"] != "" {
		return
	}
	role := strings.ReplaceAll(cmp.Or(t.logs.role, "default"), "%", "%%")
	text := cmp.Or(t.logs.template, "[${role_name}${local_rank}]:")
	t.emit("prefix", t.logs.teeTyped, strings.NewReplacer("%", "%%", "${role_name}", role, "${local_rank}", "%l",
		"${rank}", "%r", "${hostname}", "%h").Replace(text))
}

// outputDir translates Open MPI's output directory; DIR:nocopy writes files only.
func (t *translator) outputDir(typed, text string) error {
	dir, qualifiers, _ := strings.Cut(text, ":")
	t.emit("output-filename", typed, dir)
	return t.outputQualifiers(typed, text, qualifiers)
}

// srunInput translates srun's --input: a rank, all or none. The shell must open files.
func (t *translator) srunInput(typed, text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err == nil || text == "all" || text == "none" {
		t.emit("stdin", typed, text)
		return nil
	}
	if strings.Trim(text, "0123456789,- ") == "" {
		return usage.Errorf("name one rank, or say "+typed+" all", "%s %s: standard input goes to one rank, or to all",
			typed, text)
	}
	return unsupported("let the shell open it: "+typed+" all <"+text, typed+" "+text)
}

// srunOutput returns the reader of srun's --output and --error: a pattern, or none.
func srunOutput(flags ...string) reader {
	return func(t *translator, typed, text string) error {
		switch _, err := strconv.Atoi(text); {
		case text == "all":
			return nil
		case text == "none":
			text = os.DevNull
		case err == nil:
			return unsupported("--show "+text+" shows one rank only", typed+" "+text)
		}
		return saveAs(srunMarks, flags...)(t, typed, text)
	}
}

// saveAs returns the reader of a file name pattern. A word for several flags leaves those after the
// first to their own words.
func saveAs(marks string, flags ...string) reader {
	return func(t *translator, typed, pattern string) error {
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
				at = strings.IndexByte(marks, pattern[i])
			}
			if at < 0 || at%2 != 0 {
				return unsupported("--stdout-file and --stderr-file know %r (rank), %h (host), %l (rank on its host) "+
					"and %j (the job's number in Slurm)", typed+" "+pattern)
			}
			b.WriteByte(marks[at+1])
		}
		for i, flag := range flags {
			if other := t.Typed[flag]; i == 0 || other == "" || other == typed {
				t.emit(flag, typed, b.String())
			}
		}
		return nil
	}
}

// saveRound returns the reader of Fujitsu's names of files, FILE.ROUND.RANK, of which gorun is
// always the first round.
func saveRound(flags ...string) reader {
	return func(t *translator, typed, file string) error {
		for _, flag := range flags {
			t.emit(flag, typed, strings.ReplaceAll(file, "%", "%%")+".1.%r")
		}
		return nil
	}
}

// streams is a set of output streams in torchrun's bits: 1 stdout, 2 stderr.
type streams uint8

// String returns the value of --hide for s.
func (s streams) String() string { return [...]string{"none", "stdout", "stderr", "all"}[s&3] }

// redirection holds the streams that torchrun redirects, by local rank. The zero value is none.
type redirection struct {
	all    streams         // streams of all local ranks, if byRank is nil
	byRank map[int]streams // streams by local rank; other ranks have none
}

// any reports whether any stream of any local rank is redirected.
func (r redirection) any() bool {
	some := func(s streams) bool { return s != 0 }
	return some(r.all) || slices.ContainsFunc(slices.Collect(maps.Values(r.byRank)), some)
}

// of returns the streams of a local rank.
func (r redirection) of(rank int) streams {
	if r.byRank != nil {
		return r.byRank[rank]
	}
	return r.all
}

func (t *translator) redirects(typed, text string) error {
	return t.redirect(typed, text, &t.logs.redirected)
}
func (t *translator) tee(typed, text string) error {
	t.logs.teeTyped = typed
	return t.redirect(typed, text, &t.logs.teed)
}

// named reads torchrun's --role, linePrefix its --log-line-prefix-template.
func (t *translator) named(_, text string) error      { t.logs.role = text; return nil }
func (t *translator) linePrefix(_, text string) error { t.logs.template = text; return nil }

// redirect translates torchrun's --redirects and --tee: 0 none, 1 stdout, 2 stderr, 3 both, or a
// map of local ranks to these. Redirected output goes to files only, unless it is in --tee.
func (t *translator) redirect(typed, text string, to *redirection) error {
	read, err := readRedirection(text)
	if err != nil {
		return usage.Errorf("say 0 none, 1 stdout, 2 stderr, 3 both, or 0:3,1:1 for some local ranks", "%s %q: %w",
			typed, text, err)
	}
	*to = read
	if hide := t.hidden(); hide != "none" || t.Typed["hide"] != "" {
		t.emit("hide", typed, hide) // the last value wins
	}
	return nil
}

// hidden returns the streams in --redirects but not in --tee, in the form of --hide.
func (t *translator) hidden() string {
	if t.logs.redirected.byRank == nil && t.logs.teed.byRank == nil {
		return (t.logs.redirected.all &^ t.logs.teed.all).String()
	}
	ranks := slices.Sorted(maps.Keys(t.logs.redirected.byRank))
	others := t.logs.redirected.all
	if t.logs.redirected.byRank != nil {
		others = 0
	}
	for rank := range t.logs.teed.byRank {
		if !slices.Contains(ranks, rank) {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	var items []string
	for _, rank := range ranks {
		items = append(items, strconv.Itoa(rank)+":"+(t.logs.redirected.of(rank)&^t.logs.teed.of(rank)).String())
	}
	if t.logs.teed.byRank == nil {
		others &^= t.logs.teed.all
	}
	if others != 0 {
		items = append([]string{others.String()}, items...)
	}
	return strings.Join(items, ",")
}

func readRedirection(text string) (redirection, error) {
	if bits, err := strconv.ParseUint(text, 10, 8); err == nil && bits <= 3 {
		return redirection{all: streams(bits)}, nil
	}
	byRank := map[int]streams{}
	for item := range strings.SplitSeq(text, ",") {
		rank, value, _ := strings.Cut(item, ":")
		n, err := strconv.ParseUint(rank, 10, 20)
		bits, bitsErr := strconv.ParseUint(value, 10, 8)
		if err != nil || bitsErr != nil || bits > 3 {
			return redirection{}, errors.New("expected a number from 0 to 3, or local ranks with one")
		}
		byRank[int(n)] = streams(bits)
	}
	return redirection{byRank: byRank}, nil
}
