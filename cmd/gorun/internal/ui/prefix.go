package ui

import (
	"bytes"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// LineStyle is the style of the prefix of output lines.
type LineStyle struct {
	Style     string
	Foreign   bool // lines that ranks leave unfinished end as under the launcher whose style it is
	Timestamp bool
	Fold      string  // auto, lines or numbers, as --fold; "": no line is folded
	Color     [3]bool // index: fd; true: color prefixes by host
	Programs  []launcher.Program
}

// timeMark stands for the time in an unfinished prefix.
const timeMark = "\x00"

// prefixFunc is a launcher.Options.Prefix.
type prefixFunc func(rank, fd int, at time.Time) []byte

// Prefixer returns the prefix of lines by rank, fd and time, or nil for none.
func (l LineStyle) Prefixer(plan launcher.Plan) (prefixFunc, error) {
	text, err := l.text(plan)
	if text == nil || err != nil {
		return nil, err
	}
	if l.Timestamp {
		plain := text
		gap := " "
		if l.ctime() {
			gap = ""
		}
		// text returns the prefix with timeMark for the time, or nil for none.
		text = func(rank, fd int) string {
			if t := plain(rank, fd); strings.Contains(t, timeMark) {
				return t
			}
			return timeMark + gap + plain(rank, fd)
		}
	}
	return withTime(cached(plan.Size, l.colored(plan, text)), l.layout()), nil
}

// ctime reports whether the style writes times like ctime(3).
func (l LineStyle) ctime() bool {
	return slices.Contains([]string{"horovod", "mpirun", "ompi"}, l.Style) || strings.Contains(l.Style, "%T")
}

// layout is the form of times.
func (l LineStyle) layout() string {
	if l.ctime() {
		return time.ANSIC
	}
	return "2006-01-02 15:04:05.000"
}

// CutMark returns the mark at the end of a line that is cut; "" in the styles of other launchers,
// whose readers do not know it.
func (l LineStyle) CutMark() string {
	if l.Foreign || l.ctime() {
		return ""
	}
	return "\\"
}

// LastMark returns the end of the last line of all where its rank has not ended it, or "".
func (l LineStyle) LastMark() string {
	if l.Foreign && l.Style != "srun" {
		return ""
	}
	return l.CutMark() + "\n"
}

// text is the prefixes' text with marks for times, or nil for none.
func (l LineStyle) text(plan launcher.Plan) (func(rank, fd int) string, error) {
	template := prose.Plain(l.Style)
	switch l.Style {
	case "none":
		if !l.Timestamp {
			return nil, nil
		}
		template = "%t "
	case "", "host", "default":
		return hostPrefix(plan), nil
	case "srun":
		return rankPrefix(plan), nil
	case "rank", "hydra":
		template = "[%r] "
	case "horovod":
		template = "[%r]<%s>:"
	case "mpirun", "ompi":
		template = "[1,%r]<%s>:"
	default:
		if !strings.Contains(l.Style, "%") {
			return nil, usage.Errorf("choose host, rank, horovod, mpirun or none, or write your own with %r (rank), "+
				"%h (host), %l (local rank), %p (program), %s (stdout or stderr) and %t or %T (time)",
				"--prefix %q is not a style", l.Style)
		}
		if mark := unknownMark(l.Style); mark != "" {
			return nil, usage.Errorf("write %r (rank), %h (host), %l (local rank), %p (program), %s (stdout or "+
				"stderr), %t or %T (time), or %% for a percent sign",
				"--prefix %q: %s stands for nothing", l.Style, mark)
		}
	}
	seatOf := seats(plan)
	programs := l.programNames(plan)
	return func(rank, fd int) string {
		at := seatOf(rank)
		program := "spawned"
		if rank < len(programs) {
			program = programs[rank]
		}
		return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", at.host, "%l", strconv.Itoa(at.local),
			"%p", program, "%s", streamName(fd), "%t", timeMark, "%T", timeMark,
			"%%", "%").Replace(template)
	}, nil
}

// programNames returns the base name of each rank's program. An elastic job has one program for any
// number of ranks.
func (l LineStyle) programNames(plan launcher.Plan) []string {
	names := make([]string, plan.Size)
	next := 0
	for _, p := range l.Programs {
		ranks := p.Ranks
		if len(l.Programs) == 1 {
			ranks = plan.Size
		}
		for range min(ranks, plan.Size-next) {
			names[next] = prose.Printable(path.Base(p.Argv[0]))
			next++
		}
	}
	return names
}

// unknownMark returns the first unknown %-mark of a template, or "".
func unknownMark(template string) string {
	for {
		_, after, found := strings.Cut(template, "%")
		if !found {
			return ""
		}
		mark, size := utf8.DecodeRuneInString(after)
		if size == 0 || !strings.ContainsRune("rhlpstT%", mark) {
			return "%" + after[:size]
		}
		template = after[size:]
	}
}

// colored gives the prefixes of each host a color in turn.
func (l LineStyle) colored(plan launcher.Plan, text func(rank, fd int) string) func(rank, fd int) string {
	palette := []int{36, 33, 32, 35, 34, 96, 93, 92, 95, 94} // ECMA-48 colors readable on light and dark backgrounds
	seatOf := seats(plan)
	return func(rank, fd int) string {
		t := text(rank, fd)
		if !l.Color[fd] || t == "" {
			return t
		}
		return fmt.Sprintf("\x1b[%dm%s\x1b[0m", palette[seatOf(rank).hostIndex%len(palette)], t)
	}
}

// UseColor decides --color for one output.
func UseColor(mode string, terminal bool, lookup func(string) (string, bool)) bool {
	noColour, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	return mode == "always" || mode == "auto" && terminal && noColour == "" && kind != "dumb"
}

// hostPrefix returns prefixes "f1:0: " padded to one width.
func hostPrefix(plan launcher.Plan) func(rank, fd int) string {
	seatOf := seats(plan)
	width := 0
	for rank := range plan.Size {
		width = max(width, len(seatOf(rank).host)+len(strconv.Itoa(rank)))
	}
	return func(rank, _ int) string {
		name := fmt.Sprintf("%s:%d:", seatOf(rank).host, rank)
		return fmt.Sprintf("%-*s ", width+2, name)
	}
}

// rankPrefix returns prefixes "3: " of one width, as srun --label does.
func rankPrefix(plan launcher.Plan) func(rank, fd int) string {
	width := len(strconv.Itoa(max(plan.Size-1, 0)))
	return func(rank, _ int) string { return fmt.Sprintf("%*d: ", width, rank) }
}

// seat is where a rank runs.
type seat struct {
	host      string // without its domain
	hostIndex int    // index in the plan
	local     int    // local rank
}

// seats returns a function for the seat of each rank. A spawned one has no local rank.
func seats(plan launcher.Plan) func(rank int) seat {
	all := make([]seat, plan.Size)
	for i, h := range plan.Hosts {
		for _, r := range h.Ranks {
			all[r.Rank] = seat{shortName(h.Name), i, r.LocalRank}
		}
	}
	return func(rank int) seat {
		if rank < len(all) {
			return all[rank]
		}
		for i := range plan.Hosts {
			if plan.Hosts[i].Has(rank) {
				return seat{shortName(plan.Hosts[i].Name), i, -1}
			}
		}
		return seat{local: -1}
	}
}

// shortName returns a host's name without its domain; addresses stay whole.
func shortName(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	short, _, _ := strings.Cut(host, ".")
	return short
}

func streamName(fd int) string {
	if fd == 2 {
		return "stderr"
	}
	return "stdout"
}

// cached computes each prefix once. One goroutine per fd may call the result.
func cached(size int, text func(rank, fd int) string) func(rank, fd int) []byte {
	known := [2][][]byte{make([][]byte, size), make([][]byte, size)}
	return func(rank, fd int) []byte {
		if rank >= size { // spawned
			return []byte(text(rank, fd))
		}
		p := &known[fd-1][rank]
		if *p == nil {
			*p = []byte(text(rank, fd))
		}
		return *p
	}
}

// withTime replaces timeMark by the time. It formats equal times once.
func withTime(plain func(rank, fd int) []byte, layout string) prefixFunc {
	type state struct {
		at     time.Time
		text   []byte
		prefix []byte
	}
	var states [2]state
	return func(rank, fd int, at time.Time) []byte {
		p := plain(rank, fd)
		before, after, found := bytes.Cut(p, []byte(timeMark))
		if !found {
			return p
		}
		s := &states[fd-1]
		if !at.Equal(s.at) || s.text == nil {
			s.text = at.AppendFormat(s.text[:0], layout)
			s.at = at
		}
		s.prefix = append(s.prefix[:0], before...)
		s.prefix = append(append(s.prefix, s.text...), after...)
		return s.prefix
	}
}

// Folding returns how equal lines of the ranks of a plan are shown as one. screen is by fd, true
// for a terminal. Other launchers' styles name one rank a line, and are folded only if the user
// says so.
func (l LineStyle) Folding(plan launcher.Plan, screen [3]bool) launcher.Folding {
	own := slices.Contains([]string{"", "host", "default", "rank"}, l.Style)
	how := launcher.Folding{On: [3]bool{1: true, 2: true}, Numbers: l.Fold == "numbers"}
	if l.Fold == "auto" {
		how.On = screen
	}
	if l.Fold == "" || l.Fold == "auto" && !own || how.On == [3]bool{} {
		return launcher.Folding{}
	}
	width := 0
	if prefix, err := l.text(plan); err == nil && prefix != nil && plan.Size > 0 && own {
		width = len(prefix(0, 1))
	}
	how.Prefix = func(ranks []int, at time.Time) []byte {
		text := fmt.Sprintf("%-*s", width, "["+prose.Ranges(ranks, 8)+"] ")
		if l.Timestamp {
			text = at.Format(l.layout()) + " " + text
		}
		return []byte(text)
	}
	return how
}
