// Package ui is gorun at the terminal: its messages, tables and events, and the user's signals and
// input.
package ui

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// UI prints gorun's own messages, each line marked as gorun's. It is safe for concurrent use.
type UI struct {
	mu       sync.Mutex
	W        io.Writer
	Deadline *WriteDeadline // deadline of W; nil: none
	Verbose  int
	Quiet    bool   // errors only
	Unseen   bool   // the ranks' stderr is not shown
	footer   string // last line on a terminal
	open     bool   // W ends within a line of another writer
	copy     func(line string)
	// Speak translates hints into the words of the launcher that gorun stands for; nil: they stay.
	Speak func(hint string) string
}

// Copy also passes each line to a function, without the codes for a terminal, until Copy(nil). The
// function must not print.
func (u *UI) Copy(to func(line string)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.copy = to
}

// FreshLine begins the next message on a line of its own: another writer has left its line open.
func (u *UI) FreshLine() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = true
}

func (u *UI) line(kind, format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	erase := ""
	footer := ""
	if u.open {
		erase = "\n"
		u.open = false
	}
	if u.footer != "" {
		erase += "\r\x1b[K"
		footer = "gorun: " + u.footer
	}
	said := prose.Plain(fmt.Sprintf(format, args...))
	// A second line does not pose as another message.
	text := fmt.Sprintf("gorun: %s%s\n", kind, strings.ReplaceAll(said, "\n", "\n  "))
	fmt.Fprint(u.W, erase+text+footer)
	if u.copy != nil {
		u.copy(text)
	}
}

// status shows text as the last line of a terminal; "" removes it.
func (u *UI) status(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text = prose.Plain(text); text == u.footer {
		return
	}
	if u.footer != "" {
		fmt.Fprint(u.W, "\r\x1b[K")
	}
	if u.footer = text; text != "" {
		fmt.Fprintf(u.W, "gorun: %s", text)
	}
}

func (u *UI) Errorf(format string, args ...any) { u.line("error: ", format, args...) }
func (u *UI) Hintf(format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	if u.Speak != nil {
		said = u.Speak(said)
	}
	u.aside("hint: ", "%s", said)
}
func (u *UI) Warningf(format string, args ...any) { u.aside("warning: ", format, args...) }
func (u *UI) Notef(format string, args ...any)    { u.aside("", format, args...) }

// aside prints a line unless --quiet is set.
func (u *UI) aside(kind, format string, args ...any) {
	if !u.Quiet {
		u.line(kind, format, args...)
	}
}

// Table prints lines that the user requested.
func (u *UI) Table(text string) {
	for line := range strings.Lines(text) {
		u.line("", "%s", strings.TrimRight(line, " \n"))
	}
}

// Tracef prints a line with -v.
func (u *UI) Tracef(format string, args ...any) {
	if u.Verbose > 0 {
		u.line("", format, args...)
	}
}

// Report prints the error of a job that did not start.
func (u *UI) Report(err error) {
	if launch, is := errors.AsType[*launcher.LaunchError](err); is {
		u.ReportHosts(launch.Hosts)
		return
	}
	u.Errorf("%v", err)
	if h := usage.Hint(err); h != "" {
		u.Hintf("%s", h)
	}
}

// ReportHosts prints each failed host, grouped by reason, and each hint once.
func (u *UI) ReportHosts(failed []launcher.HostError) {
	for _, line := range byReason(failed) {
		u.Errorf("%s", line)
	}
	var hints []string
	givers := map[string][]string{} // hosts whose agents give a hint
	for _, f := range failed {
		h := usage.Hint(f.Err)
		if known := slices.Contains(hints, h); h == "" || !known && len(hints) == mostReasons {
			continue
		} else if !known {
			hints = append(hints, h)
		}
		if errors.As(f.Err, new(*launcher.RefusedError)) {
			givers[h] = append(givers[h], f.Host)
		}
	}
	for _, h := range hints {
		u.Hintf("%s", advice(givers[h], h))
	}
}

// advice returns a hint of the agents of some hosts, which names them as its source unless it is of
// this machine.
func advice(hosts []string, hint string) string {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return host == "localhost" })
	if hint == "" || len(hosts) == 0 {
		return hint
	}
	return prose.List(hosts) + ": " + hint
}

// mostReasons bounds the printed reasons: each of thousands of hosts may fail for its own.
const mostReasons = 32

// byReason returns a line with the hosts for each reason of failure. If there are too many reasons,
// it returns the most frequent ones and a line for all other hosts.
func byReason(failed []launcher.HostError) (lines []string) {
	var reasons []string
	hosts := map[string][]string{}
	for _, f := range failed {
		reason := f.Reason()
		if hosts[reason] == nil {
			reasons = append(reasons, reason)
		}
		hosts[reason] = append(hosts[reason], f.Host)
	}
	var rest []string
	if len(reasons) > mostReasons {
		slices.SortStableFunc(reasons, func(a, b string) int { return len(hosts[b]) - len(hosts[a]) })
		for _, reason := range reasons[mostReasons:] {
			rest = append(rest, hosts[reason]...)
		}
		reasons = reasons[:mostReasons]
	}
	for _, reason := range reasons {
		colon := ": "
		if strings.HasPrefix(reason, "(") { // the host's address or port precedes the reason
			colon = " "
		}
		lines = append(lines, prose.List(hosts[reason])+colon+reason)
	}
	if rest != nil {
		lines = append(lines, prose.List(rest)+": failed for other reasons")
	}
	return lines
}
