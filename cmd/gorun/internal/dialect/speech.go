package dialect

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// Speech translates hints into the words of a launcher: gorun's flags, and the command that starts
// a job. Flags for which the launcher has no word stay: under its name gorun knows its own, too.
type Speech struct {
	dialect  Dialect
	start    string         // the words that start a job
	commands []string       // commands of gorun
	flags    *pflag.FlagSet // flags of gorun
	table    func() table   // most runs print no hint, and read no table
}

// NewSpeech returns the speech of a dialect. program is the name by which gorun was started.
func NewSpeech(program string, dialect Dialect, flags *pflag.FlagSet, commands []string) *Speech {
	s := &Speech{
		dialect:  dialect,
		start:    "gorun",
		commands: commands,
		flags:    flags,
		table:    sync.OnceValue(readTable),
	}
	if of, _ := Named(filepath.Base(program)); of != Own {
		s.start = strings.TrimSpace(filepath.Base(program) + " " + of.launcher().command)
	}
	return s
}

// command is what the words of a hint belong to.
type command uint8

const (
	noCommand command = iota
	startsJob
	otherCommand // command of gorun or of another launcher
)

// piece is a word of a text and the punctuation around it.
type piece struct{ before, word, after string }

func cutPiece(text string) piece {
	inner := strings.TrimLeft(text, `("'`)
	word := strings.TrimRight(inner, `,;:.)"'`)
	return piece{text[:len(text)-len(inner)], word, inner[len(word):]}
}

// Hint translates a hint. Punctuation ends the words of a command.
func (s *Speech) Hint(text string) string {
	if s.dialect == Own {
		return text
	}
	pieces := strings.Split(text, " ")
	of := noCommand
	previous := ""
	for i := range pieces {
		p := cutPiece(pieces[i])
		next := ""
		if i+1 < len(pieces) && p.after == "" {
			next = cutPiece(pieces[i+1]).word
		}
		if p.before != "" {
			of = noCommand
		}
		named, isLauncher := Named(p.word)
		typed := p.word
		switch {
		case typed == "gorun" && strings.HasPrefix(next, "-"):
			of = startsJob
			p.word = s.start
		case typed == "gorun" && slices.Contains(s.commands, next),
			isLauncher && named != Own && strings.HasPrefix(next, "-"):
			of = otherCommand
		case of != otherCommand && len(typed) > 1 && typed[0] == '-':
			flag, value := s.flag(typed, previous, next, of == startsJob)
			p.word = flag
			if value != next {
				pieces[i+1] = strings.Replace(pieces[i+1], next, value, 1)
			}
		}
		if p.after != "" {
			of = noCommand
		}
		previous = typed
		pieces[i] = p.before + p.word + p.after
	}
	return strings.Join(pieces, " ")
}

// flag translates a flag and the word that follows it, which may be its value.
func (s *Speech) flag(typed, previous, next string, starts bool) (flag, value string) {
	name, attached, isAttached := strings.Cut(strings.TrimLeft(typed, "-"), "=")
	if len(name) == 1 && name != "H" && name != "x" && previous != "after" && previous != "with" {
		return typed, next // perhaps a flag of another program
	}
	ours := Lookup(s.flags, normalizeDashes(name))
	there := rowsOf(s.table().flags[name], s.dialect)
	switch {
	case ours == nil, slices.ContainsFunc(there, func(w *word) bool { return w.stands(ours.Name) }):
		return typed, next
	case ours.Name == "export" && s.dialect == Slurm && next != "":
		return "--export", "ALL," + next
	case ours.Name == "export" && s.dialect == Flux:
		return "--env", next
	}
	wanted := []string{ours.Name}
	if ours.Name == "np" && starts {
		wanted = append(wanted, "ppn") // the same on one host
	}
	for _, name := range wanted {
		for _, w := range rowsOf(s.table().rows, s.dialect) {
			switch {
			case w.args == pair && !strings.Contains(next, "="):
			case w.does == means && w.to == name && w.is != nil && len(w.names) > 0 && next != "" && w.value == next:
				return s.spelling(w), w.is[0]
			case w.stands(name) && isAttached && w.args != 0:
				return s.spelling(w) + "=" + attached, next
			case w.stands(name) && !isAttached:
				return s.spelling(w), next
			}
		}
	}
	if len(there) > 0 { // the launcher means something else by it
		return "--" + ours.Name, next
	}
	return typed, next
}

// stands reports whether a row has the same values as a flag of gorun.
func (w *word) stands(flag string) bool {
	text, is := strings.CutPrefix(w.right, "--"+flag)
	value := " VALUE"
	if w.args == 0 {
		value = ""
	}
	text, same := strings.CutPrefix(text, value)
	whole := text == "" || w.does == reads && strings.HasPrefix(text, ";") || strings.HasPrefix(text, ", ")
	return is && same && whole && w.is == nil && len(w.names) > 0
}

// spelling returns the usual long name of a row as the launcher writes it.
func (s *Speech) spelling(w *word) string {
	usual := w.names[0]
	if i := slices.IndexFunc(w.names, func(name string) bool { return len(name) > 1 }); i >= 0 {
		usual = w.names[i]
	}
	if s.dialect&(DeepSpeed|Accelerate) != 0 {
		usual = strings.ReplaceAll(usual, "-", "_")
	}
	if s.dialect == Hydra {
		return "-" + usual
	}
	return "--" + usual
}
