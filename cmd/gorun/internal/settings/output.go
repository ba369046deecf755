package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// saveFiles holds the name patterns of --stdout-file and --stderr-file, by fd; "" saves nothing.
type saveFiles [3]string

// Hidden returns the streams that are saved and therefore not shown.
func (s saveFiles) Hidden() (h streamSet) {
	for fd, pattern := range s {
		if pattern != "" {
			h |= 1 << (fd - 1)
		}
	}
	return h
}

// Paths returns the file of each rank and fd. Two ranks with the same file are an error. job is the
// scheduler's job number, or "".
func (s saveFiles) Paths(plan launcher.Plan, job string) (func(rank, fd int) string, error) {
	if s.Hidden() == 0 {
		return nil, nil
	}
	for fd := 1; fd <= 2; fd++ { // check the patterns also for an elastic job without hosts
		if _, err := s.Path(fd, 0, 0, "host", job); err != nil {
			return nil, err
		}
	}
	paths := make([][3]string, plan.Size)
	owner := map[string]int{}
	for _, h := range plan.Hosts {
		for _, r := range h.Ranks {
			for fd := 1; fd <= 2; fd++ {
				path, err := s.Path(fd, r.Rank, r.LocalRank, h.Name, job)
				if err != nil {
					return nil, err
				}
				if other, taken := owner[path]; path != "" && taken && other != r.Rank && path != os.DevNull {
					return nil, usage.Errorf("put %r (the rank) into the name, or let the shell save all of it: >FILE",
						"%s %s: ranks %d and %d would have one file", saveFlag(fd), s[fd], other, r.Rank)
				}
				owner[path] = r.Rank
				paths[r.Rank][fd] = path
			}
		}
	}
	return func(rank, fd int) string {
		if rank < len(paths) {
			return paths[rank][fd]
		}
		if h := plan.Host(rank); h != nil { // spawned there
			path, _ := s.Path(fd, rank, rank, h.Name, job) // the pattern is valid
			return path
		}
		return ""
	}, nil
}

// Path returns the file of a rank's stream, or "".
func (s saveFiles) Path(fd, rank, local int, host, job string) (string, error) {
	path, err := expand(s[fd], map[byte]string{'r': strconv.Itoa(rank), 'l': strconv.Itoa(local), 'h': host, 'j': job})
	if err != nil {
		return "", usage.Errorf("%r is the rank, %h the host, %l the rank on its host, %j the job's number in Slurm; "+
			"%3r is three digits", "%s %s: %w", saveFlag(fd), s[fd], err)
	}
	return path, nil
}

func saveFlag(fd int) string { return [...]string{1: "--stdout-file", 2: "--stderr-file"}[fd] }

// expand replaces %x by values, %3x zero-padded to three digits, and %% by %.
func expand(pattern string, values map[byte]string) (string, error) {
	var b strings.Builder
	for rest := pattern; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if rest = after; !found {
			break
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		width, _ := strconv.Atoi(rest[:digits])
		rest = rest[digits:]
		if rest == "" || width > 20 {
			return "", fmt.Errorf("there is no %%%s", after)
		}
		value, known := values[rest[0]]
		switch {
		case rest[0] == '%':
			value = "%"
		case !known || value == "":
			return "", fmt.Errorf("there is no %%%c here", rest[0])
		}
		b.WriteString(strings.Repeat("0", max(0, width-len(value))) + value)
		rest = rest[1:]
	}
	return b.String(), nil
}

// hidden is the ranks' streams that the terminal does not show: those of all ranks, and of some
// local ranks.
type hidden struct {
	streams streamSet
	local   map[int]streamSet // instead of streams
}

// streamSet is a bit set of output streams.
type streamSet uint8

// The bits of streamSet.
const (
	hideStdout streamSet = 1
	hideStderr streamSet = 2
	hideAll              = hideStdout | hideStderr
)

func (s streamSet) String() string { return [...]string{"none", "stdout", "stderr", "all"}[s&hideAll] }

// setOf returns the set that a word names.
func setOf(word string) (streamSet, bool) {
	for _, s := range []streamSet{0, hideStdout, hideStderr, hideAll} {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}

func (h *hidden) Type() string { return "stream" }

func (h *hidden) String() string {
	var items []string
	if all := h.streams.String(); all != "none" || len(h.local) == 0 {
		items = append(items, all)
	}
	for _, local := range slices.Sorted(maps.Keys(h.local)) {
		items = append(items, strconv.Itoa(local)+":"+h.local[local].String())
	}
	return strings.Join(items, ",")
}

func (h *hidden) Set(text string) error {
	var set hidden
	for item := range strings.SplitSeq(text, ",") {
		rank, word, ofRank := strings.Cut(item, ":")
		if !ofRank {
			word = item
		}
		streams, known := setOf(word)
		local, err := strconv.ParseUint(rank, 10, 20)
		switch {
		case !known || ofRank && err != nil:
			return errors.New("expected stdout, stderr, all or none, or local ranks with one: 0:stdout,1:all")
		case !ofRank:
			set.streams = streams
		default:
			if set.local == nil {
				set.local = map[int]streamSet{}
			}
			set.local[int(local)] = streams
		}
	}
	*h = set
	return nil
}

// Beyond reports whether h hides a stream that other does not.
func (h hidden) Beyond(other streamSet) bool {
	all := h.streams
	for _, s := range h.local {
		all |= s
	}
	return all&^other != 0
}

// With returns h and the streams of other.
func (h hidden) With(other streamSet) hidden {
	all := hidden{streams: h.streams | other}
	for local, s := range h.local {
		if all.local == nil {
			all.local = map[int]streamSet{}
		}
		all.local[local] = s | other
	}
	return all
}

// Of reports whether stdout (fd 1) or stderr (fd 2) of a local rank is hidden; -1 is a rank that is
// not named.
func (h hidden) Of(local, fd int) bool {
	streams, named := h.local[local]
	if !named {
		streams = h.streams
	}
	return streams>>(fd-1)&1 != 0
}

// Shown combines --show, --show-local and --hide into a launcher.Options.Show; nil shows
// everything.
func (o *Options) Shown(plan launcher.Plan) (func(rank, fd int) bool, error) {
	ranks, err := o.Show.Filter(plan.Size)
	h := o.Hide.With(o.Save.Hidden())
	if err != nil || ranks == nil && o.ShowLocal == nil && h.local == nil && h.streams == 0 {
		return nil, err
	}
	locals := map[int]int{} // key: rank
	if o.ShowLocal != nil || h.local != nil {
		for _, host := range plan.Hosts {
			for _, r := range host.Ranks {
				locals[r.Rank] = r.LocalRank
			}
		}
	}
	return func(rank, fd int) bool {
		local, known := locals[rank]
		if !known {
			local = -1
		}
		return (ranks == nil || ranks(rank)) && (o.ShowLocal == nil || o.ShowLocal.has(local)) && !h.Of(local, fd)
	}, nil
}

// SavedText describes where output is saved and what the terminal hides, or is "" without such
// flags.
func (o *Options) SavedText() string {
	var parts []string
	for fd, noun := range [...]string{1: "stdout", 2: "stderr"} {
		if o.Save[fd] != "" {
			parts = append(parts, noun+" to "+o.Save[fd])
		}
	}
	if o.OutputFilename != "" {
		parts = append(parts, "saved in "+o.OutputFilename)
	}
	if o.Hide.Beyond(0) {
		parts = append(parts, "hidden: "+o.Hide.String())
	}
	if o.Show != nil {
		parts = append(parts, "shown: ranks "+o.Show.String())
	}
	if o.ShowLocal != nil {
		parts = append(parts, "shown: local ranks "+o.ShowLocal.String())
	}
	return strings.Join(parts, ", ")
}

// Fold says which lines of ranks are shown as one: lines, numbers, or those that a terminal shows
// (auto, the zero value).
type Fold string

func (f *Fold) Type() string { return "lines" }

func (f *Fold) String() string { return cmp.Or(string(*f), "auto") }

func (f *Fold) Set(text string) error {
	if !slices.Contains([]string{"auto", "lines", "numbers"}, text) {
		return errors.New("expected auto, lines or numbers")
	}
	*f = Fold(text)
	return nil
}

// asked reports whether lines are folded wherever they go.
func (f *Fold) asked() bool { return f.String() != "auto" }

// Of returns the style's Fold, with off for --no-fold.
func (f *Fold) Of(off bool) string {
	if off {
		return ""
	}
	return f.String()
}

// stdinChoice selects the ranks that read standard input: a rank, all or none. The zero value is
// rank 0.
type stdinChoice string

func (c *stdinChoice) Type() string { return "rank" }

func (c *stdinChoice) String() string {
	if *c == "" {
		return "0"
	}
	return string(*c)
}

func (c *stdinChoice) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 20); err != nil && text != "all" && text != "none" {
		return errors.New("expected a rank, all or none")
	}
	*c = stdinChoice(text)
	return nil
}

// Rank returns the launcher.Options.StdinRank for a job of size ranks.
func (c *stdinChoice) Rank(size int) (int, error) {
	switch c.String() {
	case "all":
		return launcher.StdinAll, nil
	case "none":
		return 0, nil // without input the rank does not matter
	}
	rank, err := strconv.Atoi(c.String())
	if err != nil {
		return 0, fmt.Errorf("--stdin %s: %w", c, err)
	}
	if rank >= size {
		return 0, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1),
			"--stdin %d: there is no rank %d", rank, rank)
	}
	return rank, nil
}
