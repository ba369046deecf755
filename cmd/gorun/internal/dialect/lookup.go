package dialect

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/usage"
)

// meaning is the translation of a word: a flag of gorun, or rows of the table.
type meaning struct {
	typed string // the user's spelling
	ours  string // the long name of gorun's flag, or ""
	rows  []*word
	args  int
}

// known reports whether a word without dashes is a flag of any launcher.
func (t *translator) known(name string) bool {
	return len(t.rows(name)) > 0 || Lookup(t.flags, name) != nil
}

// rows returns the rows of a word that count in the dialect.
func (t *translator) rows(name string) []*word { return rowsOf(t.table.flags[name], ^byName|t.dialect) }

// Lookup returns gorun's flag of a name or letter without dashes, or nil.
func Lookup(flags *pflag.FlagSet, name string) *pflag.Flag {
	switch len(name) {
	case 0:
		return nil
	case 1:
		return flags.ShorthandLookup(name)
	}
	return flags.Lookup(name)
}

// meaning translates a word: by its dialect, else by gorun's choice among launchers, else as
// gorun's flag of that name, else by the launchers that have it, if they agree.
func (t *translator) meaning(name, typed string) (meaning, error) {
	rows := t.rows(name)
	for _, dialect := range []Dialect{t.dialect, Own} {
		if of := rowsOf(rows, dialect); len(of) > 0 {
			return meaning{typed: typed, rows: of, args: of[0].args}, nil
		}
		if dialect == Own {
			break
		}
	}
	if f := Lookup(t.flags, name); f != nil {
		m := meaning{typed: typed, ours: f.Name}
		if f.NoOptDefVal == "" {
			m.args = 1
		}
		return m, nil
	}
	first := rowsOf(rows, rows[0].of)
	for _, n := range Launchers() {
		if of := rowsOf(rows, n.Dialect); len(of) > 0 && !agree(first, of) {
			return meaning{}, ambiguous(rows, typed)
		}
	}
	return meaning{typed: typed, rows: first, args: first[0].args}, nil
}

// Takes returns how many values follow a launcher's flag, given without dashes, and whether it
// exists. The number is negative if it depends on the typed text.
func (d Dialect) Takes(name string) (values int, known bool) {
	if rows := rowsOf(readTable().flags[name], d); len(rows) > 0 {
		return rows[0].args, true
	}
	return 0, false
}

// agree reports whether two launchers give a word the same meaning.
func agree(a, b []*word) bool {
	return slices.EqualFunc(a, b, func(a, b *word) bool {
		sameText := a.to == b.to && a.value == b.value || a.does == same || a.does == pending || a.does == asks
		return a.args == b.args && slices.Equal(a.is, b.is) && a.does == b.does && sameText
	})
}

// ambiguous returns the error for a word with different meanings.
func ambiguous(rows []*word, typed string) error {
	var says, names []string
	for _, n := range Launchers() {
		of := rowsOf(rows, n.Dialect)
		if len(of) == 0 {
			continue
		}
		names = append(names, n.Name)
		if i := slices.IndexFunc(of[0].names, func(name string) bool { return len(name) > 1 }); i >= 0 {
			says = append(says, "--"+of[0].names[i]+" ("+n.Name+")")
		}
	}
	return usage.Errorf("write "+strings.Join(says, " or ")+", or say --dialect "+strings.Join(names, " or "),
		"%s: %s mean different things by it", typed, strings.Join(names, " and "))
}

// unabbreviated returns the only word of the dialect that begins with name if the launcher accepts
// abbreviations, else name.
func (t *translator) unabbreviated(name string) string {
	if t.dialect&(Horovod|Slurm|Torch|DeepSpeed|Accelerate) == 0 || len(name) < 2 {
		return name
	}
	whole := ""
	for candidate, rows := range t.table.flags {
		if !strings.HasPrefix(candidate, name) || len(rowsOf(rows, t.dialect)) == 0 {
			continue
		}
		if whole != "" {
			return name
		}
		whole = candidate
	}
	if whole == "" {
		return name
	}
	return whole
}

// unknown returns the error for an unknown word.
func (t *translator) unknown(arg string) error {
	dashes := "--"
	if !strings.HasPrefix(arg, "--") {
		dashes = "-"
	}
	name := strings.TrimPrefix(typedWord(arg), dashes)
	h := "see gorun --help; flags of your program go after its name"
	if n := t.nearest(name); n != "" {
		h = "did you mean --" + n + "?"
	}
	if rows := t.table.flags[normalizeDashes(name)]; len(rows) > 0 && t.dialect == Own {
		launcher := rows[0].of.String()
		h += " For " + launcher + "'s meaning say --dialect " + launcher
	}
	return usage.Errorf(h, "unknown flag %s%s", dashes, name)
}

// nearest returns the long flag that an unknown word probably means, or "".
func (t *translator) nearest(name string) string {
	var ours, theirs []string
	t.flags.VisitAll(func(f *pflag.Flag) { ours = append(ours, f.Name) })
	for other := range t.table.flags {
		if len(other) > 2 && len(t.rows(other)) > 0 {
			theirs = append(theirs, other)
		}
	}
	slices.Sort(theirs)
	return usage.Nearest(normalizeDashes(name), append(ours, theirs...))
}

// misspelled reports whether the text after one dash is nearly a long flag of a launcher whose long
// flags have one dash, rather than a letter with its value.
func (t *translator) misspelled(body string) bool {
	if t.dialect&(OpenMPI|Hydra) == 0 || len(body) < 3 {
		return false
	}
	word := typedWord(body)
	near := t.nearest(word)
	return near != "" && near[0] == word[0]
}

// Spelling normalizes a long flag name: other launchers' spellings, and _ for -.
func Spelling(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch s := normalizeDashes(name); s {
	case "host":
		return "hosts"
	case "rsh-agent":
		return "launch-agent"
	case "machinefile":
		return "hostfile"
	case "num-proc":
		return "np"
	case "network-interfaces":
		return "network-interface"
	case "wd":
		return "wdir"
	case "colour":
		return "color"
	default:
		return pflag.NormalizedName(s)
	}
}

func normalizeDashes(name string) string { return strings.ReplaceAll(name, "_", "-") }
