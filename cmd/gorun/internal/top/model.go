package top

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/straggler"
	"github.com/gorun/gorun/internal/usage"
)

// model is the state of top: samples and the user's choices. It is pure: samples and keys in, text
// out.
type model struct {
	job    control.Job
	sample watch.Sample
	late   straggler.Finder // takes every sample
	tail   []string         // the last lines of the chosen rank
	stacks look             // stacks of the chosen rank

	width, height int
	hosts         bool      // the table of hosts instead of that of ranks
	sort          [2]string // name of a column; "": the first
	reverse       [2]bool
	filter        string
	typing        bool // the filter
	help          bool
	chosen        string // key of the row under the cursor
	detail        int    // the rank that is shown alone; -1: the table
	top           int    // first row on the screen
	quit          bool
}

func newModel(job control.Job) *model {
	return &model{
		job:    job,
		width:  80,
		height: 24,
		detail: -1,
	}
}

func (m *model) take(s watch.Sample) {
	m.sample = s
	m.late.Add(s)
}

// view returns 0 for ranks and 1 for hosts.
func (m *model) view() int {
	if m.hosts {
		return 1
	}
	return 0
}

// row is a line of a table.
type row struct {
	key  string // key of the rank or host
	rank int    // -1: a host
	text func() string
}

// rows returns the lines of the table that pass the filter, in the chosen order.
func (m *model) rows() []row {
	if m.hosts {
		return lines(hostColumns(), m.sample.Hosts, m, func(h watch.Host) (string, int) { return h.Host, -1 },
			func(h watch.Host) bool { return strings.Contains(h.Host, m.filter) })
	}
	set, err := usage.ParseRanks(m.filter)
	return lines(m.rankColumns(), m.sample.Ranks, m, func(r watch.Rank) (string, int) {
		return rankKey(r.Rank), r.Rank
	},
		func(r watch.Rank) bool {
			if err == nil && m.filter != "" {
				return slices.ContainsFunc(set, func(part [2]int) bool {
					return part[0] <= r.Rank && r.Rank <= part[1]
				})
			}
			return strings.Contains(r.Host, m.filter) || strings.Contains(stateText(r), m.filter)
		})
}

func lines[R any](columns []column[R], all []R, m *model, key func(R) (string, int), pass func(R) bool) (out []row) {
	var chosen []R
	for _, r := range all {
		if pass(r) {
			chosen = append(chosen, r)
		}
	}
	by := columns[ordered(columns, m.sort[m.view()])]
	slices.SortStableFunc(chosen, func(a, b R) int {
		if m.reverse[m.view()] {
			a, b = b, a
		}
		return by.order(a, b)
	})
	var without []R // rows with nothing in that column come last in either order
	chosen = slices.DeleteFunc(chosen, func(r R) bool {
		none := by.text(r) == "-"
		if none {
			without = append(without, r)
		}
		return none
	})
	chosen = append(chosen, without...)
	for _, r := range chosen {
		name, rank := key(r)
		out = append(out, row{name, rank, func() string {
			return line(columns, m.width, func(c column[R]) string {
				return c.text(r)
			})
		}})
	}
	return out
}

// key handles a key, given by name.
func (m *model) key(name string) {
	if m.typing {
		m.edit(name)
		return
	}
	m.help = m.help && name == ""
	switch name {
	case "q", "ctrl-c":
		m.quit = true
	case "esc":
		if m.detail < 0 {
			m.filter = ""
		}
		m.detail = -1
	case "left", "backspace":
		m.detail = -1
	case "?":
		m.help = true
	}
	if m.detail >= 0 {
		m.stacks.wanted = m.stacks.wanted || name == "s"
		return
	}
	v := m.view()
	switch name {
	case "h", "tab":
		m.hosts = !m.hosts
		m.chosen = ""
		m.top = 0
	case "/":
		m.typing = true
	case "<", ",":
		m.order(-1)
	case ">", ".":
		m.order(1)
	case "r":
		m.reverse[v] = !m.reverse[v]
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.page())
	case "pgdn", " ":
		m.move(m.page())
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "enter", "right":
		rows := m.rows()
		i := m.cursor(rows)
		if i < 0 {
			return
		}
		if m.hosts { // show the ranks of the host
			m.filter = rows[i].key
			m.hosts = false
			m.chosen = ""
			m.top = 0
			return
		}
		m.detail = rows[i].rank
		m.tail = nil
		m.stacks = look{wanted: true}
	}
}

func (m *model) rankColumns() []column[watch.Rank] { return rankColumns(m.sample.Ranks, m.width) }

// order moves the sort by a number of columns.
func (m *model) order(by int) {
	if m.hosts {
		m.sort[1] = next(hostColumns(), m.sort[1], by)
	} else {
		m.sort[0] = next(m.rankColumns(), m.sort[0], by)
	}
}

func next[R any](columns []column[R], name string, by int) string {
	return columns[(ordered(columns, name)+by+len(columns))%len(columns)].name
}

// ordered returns the index of the column that orders the rows: the first, if the named one is not
// shown.
func ordered[R any](columns []column[R], name string) int {
	return max(0, slices.IndexFunc(columns, func(c column[R]) bool { return c.name == name }))
}

// edit handles a key while the filter is typed.
func (m *model) edit(name string) {
	switch {
	case name == "enter":
		m.typing = false
	case name == "esc" || name == "ctrl-c":
		m.typing = false
		m.filter = ""
	case name == "backspace":
		if text := []rune(m.filter); len(text) > 0 {
			m.filter = string(text[:len(text)-1])
		}
	case len([]rune(name)) == 1 && len(m.filter) < 64:
		m.filter += name
	}
	m.top = 0
}

// page returns the number of rows on the screen.
func (m *model) page() int { return max(1, m.height-5) }

// cursor returns the index of the row under the cursor; -1: there are no rows.
func (m *model) cursor(rows []row) int {
	i := slices.IndexFunc(rows, func(r row) bool { return r.key == m.chosen })
	if i < 0 && len(rows) > 0 {
		return min(m.top, len(rows)-1)
	}
	return i
}

func (m *model) move(by int) {
	rows := m.rows()
	i := m.cursor(rows)
	if i < 0 {
		return
	}
	i = max(0, min(len(rows)-1, i+by))
	m.chosen = rows[i].key
	m.scroll(i, len(rows))
}

// scroll keeps the cursor on the screen.
func (m *model) scroll(cursor, rows int) {
	m.top = max(0, min(m.top, rows-m.page(), cursor))
	m.top = max(m.top, cursor-m.page()+1)
}
