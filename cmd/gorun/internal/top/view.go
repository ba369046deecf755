package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/watch"
)

func rankKey(rank int) string { return "rank " + strconv.Itoa(rank) }

// line formats one line of a table in a width.
func line[R any](columns []column[R], width int, text func(column[R]) string) string {
	extra := min(40, max(0, width-need(columns))) // columns left for names
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(' ')
		}
		value := []rune(prose.Printable(text(c)))
		room := c.width
		if c.width < 0 {
			room = -c.width
			if i == 0 || columns[i-1].width >= 0 { // the first name of a row
				room += extra
			}
		}
		if len(value) > room {
			value = append(value[:max(0, room-1)], '+')
		}
		pad := strings.Repeat(" ", room-len(value))
		if c.width < 0 {
			b.WriteString(string(value) + pad)
		} else {
			b.WriteString(pad + string(value))
		}
	}
	return b.String()
}

// header returns the names of columns, with a mark at the one that orders the rows.
func header[R any](columns []column[R], width int, by string, reverse bool) string {
	return line(columns, width, func(c column[R]) string {
		if c.name != columns[ordered(columns, by)].name {
			return c.name
		}
		if reverse {
			return "^" + strings.TrimSuffix(c.name, "/s")
		}
		return "*" + strings.TrimSuffix(c.name, "/s")
	})
}

// screen returns the styled lines of the terminal, at most its height.
func (m *model) screen() []string {
	out := []string{bold(clip(m.title(), m.width)), clip(m.totals(), m.width)}
	switch {
	case m.help:
		out = append(out, m.helpText()...)
	case m.detail >= 0:
		out = append(out, m.rankText()...)
	default:
		out = append(out, m.table()...)
	}
	for i := range out {
		if i > 1 && !strings.HasPrefix(out[i], "\x1b") {
			out[i] = clip(out[i], m.width)
		}
	}
	out = out[:min(len(out), max(0, m.height-1))]
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	return append(out, dim(clip(m.footer(), m.width)))
}

func (m *model) table() (out []string) {
	rows := m.rows()
	v := m.view()
	if m.hosts {
		out = append(out, "", inverse(header(hostColumns(), m.width, m.sort[v], m.reverse[v])))
	} else {
		out = append(out, "", inverse(header(m.rankColumns(), m.width, m.sort[v], m.reverse[v])))
	}
	if m.filter != "" || m.typing {
		out[0] = fmt.Sprintf("filter: %s", prose.Printable(m.filter))
		if m.typing {
			out[0] += "_  a host, a state, or ranks such as 0,8-11"
		}
	}
	cursor := m.cursor(rows)
	m.scroll(max(0, cursor), len(rows))
	for i := m.top; i < min(len(rows), m.top+m.page()); i++ {
		if i == cursor {
			out = append(out, inverse(clip(rows[i].text(), m.width)))
		} else {
			out = append(out, clip(rows[i].text(), m.width))
		}
	}
	if len(rows) == 0 && m.filter != "" {
		out = append(out, "nothing passes the filter; Esc removes it")
	}
	return out
}

// title describes the job in one line.
func (m *model) title() string {
	name := m.job.ID
	if m.job.Name != "" {
		name = m.job.Name + " (" + m.job.ID + ")"
	}
	run := 0
	rate := 0.0
	for _, r := range m.sample.Ranks {
		rate += r.Lines
		if r.Exit == nil && r.State != watch.Waiting {
			run++
		}
	}
	state := control.Running
	if m.sample.Seconds == 0 {
		state = m.job.State
	}
	return fmt.Sprintf("%s  %s %s  %d of %s on %s  %s lines/s", name, state, clock(m.sample.Seconds), run,
		prose.Count(m.sample.Size, "rank"),
		prose.Count(len(m.sample.Hosts), "host"), short(rate))
}

// totals describes the use of all ranks together.
func (m *model) totals() string {
	var cpu, read, written, ring, share float64
	var memory int64
	joined := 0
	for _, r := range m.sample.Ranks {
		if r.Exit == nil {
			cpu += r.CPU
			read += r.Read
			written += r.Written
			memory += r.Memory
			if r.Ring != nil {
				ring += r.Ring.Bytes
				share += r.Ring.Share
				joined++
			}
		}
	}
	cpus := 0
	in := 0.0
	sent := 0.0
	busy := 0.0
	gpus := 0
	for _, h := range m.sample.Hosts {
		cpus += h.CPUs
		in += h.Received
		sent += h.Sent
		for _, g := range h.GPUs {
			if g.Busy >= 0 {
				busy += float64(g.Busy)
				gpus++
			}
		}
	}
	text := ""
	if late := m.late.Now(); len(late) > 0 { // first, since lines are cut
		text = fmt.Sprintf("slow: rank %d costs %.0f%%  ", late[0].Rank, math.Floor(100*late[0].Cost))
	}
	text += fmt.Sprintf("cpu %s/%d  mem %s", cores(cpu), cpus, short(float64(memory)))
	if gpus > 0 {
		text += fmt.Sprintf("  gpu %.0f%%", math.Round(busy/float64(gpus)))
	}
	if joined > 0 {
		text += fmt.Sprintf("  ring %s %.0f%%", short(ring), math.Round(100*share/float64(joined)))
	}
	return text + fmt.Sprintf("  disk r %s w %s  net in %s out %s", short(read), short(written), short(in), short(sent))
}

// rankText describes one rank in full.
func (m *model) rankText() []string {
	for _, r := range m.sample.Ranks {
		if r.Rank != m.detail {
			continue
		}
		out := []string{"", inverse(pad(fmt.Sprintf("rank %d on %s", r.Rank, prose.Printable(r.Host)), m.width)),
			fmt.Sprintf("state    %s%s", stateText(r), waits(r)),
			fmt.Sprintf("process  %d; %s with its descendants, %s", r.PID, processes(r.Processes),
				prose.Count(r.Threads, "thread")),
			fmt.Sprintf("cpu      %s cores now, %s (h:mm:ss) in all", cores(r.CPU), clock(r.CPUTotal)),
			fmt.Sprintf("memory   %s resident", prose.Size(r.Memory)),
			fmt.Sprintf("storage  read %s/s, %s in all; written %s/s, %s in all", short(r.Read),
				short(float64(r.ReadTotal)), short(r.Written), short(float64(r.WrittenTotal))),
			fmt.Sprintf("output   %s lines/s, %s bytes/s", short(r.Lines), short(r.Output))}
		if r.Ring != nil {
			out = append(out, fmt.Sprintf("ring     %.0f%% of the time; %s bytes/s in %s calls/s; %s in all, in %s",
				100*r.Ring.Share, short(r.Ring.Bytes), short(r.Ring.Calls),
				short(float64(r.Ring.BytesTotal)), prose.Count(int(r.Ring.CallsTotal), "call")))
		}
		if len(r.GPUs) > 0 {
			text := fmt.Sprintf("gpus     %s", strings.Trim(fmt.Sprint(r.GPUs), "[]"))
			if r.GPUBusy != nil {
				text += fmt.Sprintf(", busy %.0f%%", *r.GPUBusy)
			}
			if r.GPUMemory != nil {
				text += ", memory " + prose.Size(*r.GPUMemory)
			}
			out = append(out, text)
		}
		room := max(0, m.height-1-2-len(out)-4) // below are two titles, each after an empty line
		stacks := m.stacks.text(r.Rank, max(room-len(m.tail), room-room/3))
		out = append(append(out, "", m.stacks.title()), stacks...)
		out = append(out, "", "last lines:")
		return append(out, m.tail[max(0, len(m.tail)-max(0, room-len(stacks))):]...)
	}
	return []string{"", fmt.Sprintf("rank %d is not in the job any more", m.detail)}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return strconv.Itoa(n) + " processes"
}

func waits(r watch.Rank) string {
	if r.Waits == "" {
		return ""
	}
	return ", in the kernel's " + r.Waits
}

func (m *model) helpText() []string {
	return strings.Split(`
up down pgup pgdn home end   move                 h tab   hosts, ranks
enter                        one rank, with stacks and last lines; of a host its ranks
< >                          order by another column; r reverses
/                            filter: a host, a state, or ranks such as 0,8-11
esc                          back; no filter      q       quit

cpu     cores that a rank and its descendants use: 1.00 is one core
mem     their resident memory; what processes share counts for each
read/s  bytes from storage; files in the page cache do not count
ring/s  bytes of ring's collectives; ring%  time in them, and waiting for others:
        the rank with the least is often the one that others wait for
gpu%    of GPUs that gorun has assigned; the table of hosts has all GPUs`, "\n")
}

func (m *model) footer() string {
	switch {
	case m.detail >= 0:
		return "s stacks again  esc back  q quit"
	case m.typing:
		return "enter keeps the filter  esc removes it"
	}
	return "enter one rank  < > order  r reverse  / filter  h hosts  ? help  q quit"
}

func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width])
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func bold(text string) string    { return "\x1b[1m" + text + "\x1b[m" }
func dim(text string) string     { return "\x1b[2m" + text + "\x1b[m" }
func inverse(text string) string { return "\x1b[7m" + text + "\x1b[m" }
