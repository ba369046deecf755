// Package tool decides which ranks of a job start below a tool, in a terminal of their own, or
// stopped for a debugger, and with which command lines. It is pure.
package tool

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// MaxPanes bounds the ranks with a terminal in tmux.
const MaxPanes = 32

// insideTmux is the kind (TERM) of terminals in tmux.
const insideTmux = "screen"

// Request holds the user's tools and the job they are for.
type Request struct {
	Tools        []string // COMMAND or COMMAND:RANKS, as --tool has them
	Debug, Panes [][2]int // ranks that wait for a debugger, that get a terminal in tmux
	// Terminal is the kind (TERM) of gorun's terminal; "": it has none.
	Terminal string
	Job      string // the scheduler's number of the job, or ""
	Plan     launcher.Plan
	Programs []launcher.Program
}

// Decision is the way in which the chosen ranks of a job start.
type Decision struct {
	Tools []launcher.Tool // ordered by rank
	Here  int             // the rank that has gorun's terminal; -1: none
	Panes []int           // ranks that have a terminal in tmux
	Halts []int           // ranks that wait for a debugger
}

// Decide returns how the chosen ranks start.
func Decide(r Request) (Decision, error) {
	d := Decision{Here: -1}
	var specs []spec
	for _, text := range r.Tools {
		s, err := parse(text)
		if err != nil {
			return d, err
		}
		specs = append(specs, s)
	}
	tools := map[int]launcher.Tool{}
	prompts, err := wrap(tools, specs, r)
	if err != nil {
		return d, err
	}
	if d.Panes, err = ranks("--panes", r.Panes, r.Plan.Size); err != nil {
		return d, err
	}
	if len(d.Panes) > MaxPanes {
		return d, usage.Errorf("name some ranks: --panes=0-7", "--panes: %d ranks, and tmux shows at most %d",
			len(d.Panes), MaxPanes)
	}
	if d.Halts, err = ranks("--debug", r.Debug, r.Plan.Size); err != nil {
		return d, err
	}
	prompts = slices.DeleteFunc(prompts, func(rank int) bool { return slices.Contains(d.Panes, rank) })
	if len(prompts) > 1 {
		return d, usage.Errorf("give each a terminal of its own with --panes, or choose one rank",
			"ranks %d and %d would both read commands from this terminal", prompts[0], prompts[1])
	}
	if len(prompts) == 1 && r.Terminal != "" {
		d.Here = prompts[0]
	}
	for _, rank := range d.Halts {
		t := tools[rank]
		if t.Argv != nil {
			return d, usage.Errorf("leave out one of them for it",
				"rank %d has a --tool, and --debug would stop that instead of the program", rank)
		}
		t.Halt = true
		tools[rank] = t
	}
	for _, rank := range d.Panes {
		t := tools[rank]
		t.Terminal = insideTmux
		tools[rank] = t
	}
	if d.Here >= 0 {
		t := tools[d.Here]
		t.Terminal = r.Terminal
		tools[d.Here] = t
	}
	for _, rank := range slices.Sorted(maps.Keys(tools)) {
		t := tools[rank]
		t.Rank = rank
		d.Tools = append(d.Tools, t)
	}
	return d, nil
}

// wrap puts tools before the programs of their ranks. The first tool is the outermost. prompts are
// the ranks whose tool reads commands.
func wrap(tools map[int]launcher.Tool, specs []spec, r Request) (prompts []int, err error) {
	ends := 0 // end of the program's ranks
	for _, p := range r.Programs {
		first := ends
		if ends += p.Ranks; len(r.Programs) == 1 {
			ends = r.Plan.Size
		}
		for rank := first; rank < ends; rank++ {
			argv := p.Argv
			reads := false
			for _, s := range slices.Backward(specs) {
				if s.has(rank) {
					argv = join(s.expand(r, rank), argv)
					reads = reads || s.prompts()
					tools[rank] = launcher.Tool{Argv: argv}
				}
			}
			if reads {
				prompts = append(prompts, rank)
			}
		}
	}
	for _, s := range specs {
		if _, err := ranks("--tool "+usage.Clipped(s.text), s.ranks, r.Plan.Size); err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

// ranks lists a set of ranks of a job.
func ranks(flag string, set [][2]int, size int) (all []int, err error) {
	for _, part := range set {
		if part[0] == 0 && part[1] == everyone {
			part[1] = size - 1
		}
		if part[1] >= size {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1), "%s: there is no rank %d",
				flag, part[1])
		}
		for rank := part[0]; rank <= part[1]; rank++ {
			all = append(all, rank)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// everyone is the last rank in the set of all ranks.
const everyone = plan.MaxRanks

// All is the set of all ranks.
func All() [][2]int { return [][2]int{{0, everyone}} }

// spec is one --tool.
type spec struct {
	text  string
	words []string
	ranks [][2]int
}

// parse reads COMMAND or COMMAND:RANKS. RANKS is a set such as 0,8-11, or all.
func parse(text string) (s spec, err error) {
	s = spec{text: text, ranks: All()}
	const form = "for example --tool 'valgrind --log-file=v.%r':0,8-11"
	command := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		set := text[i+1:]
		switch {
		case set == "":
			return s, usage.Errorf(form, "--tool %q: no ranks after the colon", usage.Clipped(text))
		case set == "all":
			command = text[:i]
		case strings.Trim(set, "0123456789,-") == "":
			command = text[:i]
			if s.ranks, err = usage.ParseRanks(set); err != nil {
				return s, usage.Errorf("a colon of the tool's own: --tool 'TOOL --port :80':all", "--tool %q: %w",
					usage.Clipped(text), err)
			}
		}
	}
	if s.words, err = usage.SplitShell(command); err != nil {
		return s, usage.Errorf(form, "--tool %q: %w", usage.Clipped(text), err)
	}
	if len(s.words) == 0 || s.words[0] == "" {
		return s, usage.Errorf(form, "--tool %q: no command", usage.Clipped(text))
	}
	if name, after, found := strings.Cut(path.Base(s.words[0]), ":"); found {
		return s, usage.Errorf("write the ranks as 0,8-11: --tool "+name+":0", "--tool %q: %q is no set of ranks",
			usage.Clipped(text), after)
	}
	return s, nil
}

func (s spec) has(rank int) bool {
	return slices.ContainsFunc(s.ranks, func(part [2]int) bool { return part[0] <= rank && rank <= part[1] })
}

// expand returns the tool's words for a rank.
func (s spec) expand(r Request, rank int) []string {
	values := map[byte]string{'r': strconv.Itoa(rank), 'j': r.Job}
	if h := r.Plan.Host(rank); h != nil {
		values['h'] = h.Name
		for _, other := range h.Ranks {
			if other.Rank == rank {
				values['l'] = strconv.Itoa(other.LocalRank)
			}
		}
	}
	var words []string
	for _, word := range s.words {
		words = append(words, expand(word, values))
	}
	return words
}

// expand replaces %r by a value, %3r by one of three digits, and %%r by %r. Anything else stays:
// tools have patterns of their own.
func expand(word string, values map[byte]string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(word, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		width, _ := strconv.Atoi(rest[:digits])
		mark := ""
		if digits < len(rest) {
			mark = rest[digits : digits+1]
		}
		switch value := values[(mark + "\x00")[0]]; {
		case value != "" && width <= 20:
			b.WriteString(strings.Repeat("0", max(0, width-len(value))) + value)
			word = rest[digits+1:]
		case strings.HasPrefix(rest, "%") && len(rest) > 1 && values[rest[1]] != "":
			b.WriteString(rest[:2])
			word = rest[2:]
		default:
			b.WriteByte('%')
			word = rest
		}
	}
}
