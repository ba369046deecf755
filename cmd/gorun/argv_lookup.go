package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// meaning is what a word says: a flag of ours, or rows of the table.
type meaning struct {
	typed string // as the user wrote it
	ours  string // the long name of our flag, or ""
	rows  []word
	args  int
}

// known reports whether a word, without its dashes, is a flag of anybody's.
func (t *translator) known(name string) bool {
	return len(t.table[name]) > 0 || ownFlag(t.flags, name) != nil
}

func ownFlag(flags *pflag.FlagSet, name string) *pflag.Flag {
	switch len(name) {
	case 0:
		return nil
	case 1:
		return flags.ShorthandLookup(name)
	}
	return flags.Lookup(name)
}

// meaning looks a known word up: what it means to the dialect, else what gorun
// has decided for it, else our flag of that name, else what it means to the launchers that
// have it, if they agree.
func (t *translator) meaning(name, typed string) (meaning, error) {
	rows := t.table[name]
	for _, dialect := range []launchers{t.dialect, Own} {
		if of := rowsOf(rows, dialect); len(of) > 0 {
			return meaning{typed: typed, rows: of, args: of[0].args}, nil
		}
		if dialect == Own {
			break
		}
	}
	if f := ownFlag(t.flags, name); f != nil {
		m := meaning{typed: typed, ours: f.Name}
		if f.NoOptDefVal == "" {
			m.args = 1
		}
		return m, nil
	}
	first := rowsOf(rows, rows[0].of)
	for _, n := range launcherNames() {
		if of := rowsOf(rows, n.launcher); len(of) > 0 && !agree(first, of) {
			return meaning{}, ambiguous(rows, typed)
		}
	}
	return meaning{typed: typed, rows: first, args: first[0].args}, nil
}

// rowsOf are the rows of a word that any of some launchers have.
func rowsOf(rows []word, of launchers) (out []word) {
	for _, w := range rows {
		if w.of&of != 0 {
			out = append(out, w)
		}
	}
	return out
}

// agree reports whether two launchers mean the same by a word.
func agree(a, b []word) bool {
	return slices.EqualFunc(a, b, func(a, b word) bool {
		sameText := a.to == b.to || a.does == b.does && (a.does == same || a.does == pending)
		return a.args == b.args && a.is == b.is && a.does == b.does && sameText
	})
}

// ambiguous is the error for a word that launchers mean different things by.
func ambiguous(rows []word, typed string) error {
	var says, names []string
	for _, n := range launcherNames() {
		of := rowsOf(rows, n.launcher)
		if len(of) == 0 {
			continue
		}
		names = append(names, n.name)
		for name := range strings.FieldsSeq(of[0].names) {
			if len(name) > 1 {
				says = append(says, "--"+name+" ("+n.name+")")
				break
			}
		}
	}
	return usagef("write "+strings.Join(says, " or ")+", or say --dialect "+strings.Join(names, " or "),
		"%s: %s mean different things by it", typed, strings.Join(names, " and "))
}

// unabbreviated is the one word of the dialect that begins with name, for launchers
// whose options may be cut short, or name.
func (t *translator) unabbreviated(name string) string {
	if t.dialect&(Horovod|Slurm|Torch) == 0 || len(name) < 2 {
		return name
	}
	whole := ""
	for candidate, rows := range t.table {
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

// unknown is the error for a word that nobody has.
func (t *translator) unknown(arg string) error {
	dashes := "--"
	if !strings.HasPrefix(arg, "--") {
		dashes = "-"
	}
	name := strings.TrimPrefix(typedWord(arg), dashes)
	var ours, theirs []string
	t.flags.VisitAll(func(f *pflag.Flag) { ours = append(ours, f.Name) })
	for other := range t.table {
		if len(other) > 2 {
			theirs = append(theirs, other)
		}
	}
	slices.Sort(theirs)
	h := "see gorun --help; flags of your program go after its name"
	all := append(ours, theirs...)
	if n := cmp.Or(nearest(normalizeDashes(name), all), begunWith(normalizeDashes(name), all)); n != "" {
		h = "did you mean --" + n + "?"
	}
	return usagef(h, "there is no flag %s%s", dashes, name)
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

// begunWith is the shortest candidate that begins with word, or "". A few letters are no beginning.
func begunWith(word string, candidates []string) string {
	shortest := ""
	for _, c := range candidates {
		if len(word) > 3 && strings.HasPrefix(c, word) && (shortest == "" || len(c) < len(shortest)) {
			shortest = c
		}
	}
	return shortest
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
