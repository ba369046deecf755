package ui

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/launcher"
)

// UI is the one place where gorun's own words are written: to stderr, each
// line marked as gorun's. Safe for concurrent use.
type UI struct {
	mu       sync.Mutex
	W        io.Writer
	Deadline *WriteDeadline // of w; nil: it is always waited for
	Verbose  int
	Quiet    bool   // errors only
	Unseen   bool   // the ranks' stderr is not shown
	footer   string // stands below all lines, on a terminal
}

func (u *UI) line(kind, format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	erase, footer := "", ""
	if u.footer != "" {
		erase, footer = "\r\x1b[K", "gorun: "+u.footer
	}
	fmt.Fprintf(u.W, "%sgorun: %s%s\n%s", erase, kind, harmless(fmt.Sprintf(format, args...)), footer)
}

// harmless is text, some of it from hosts and the environment, without what a terminal would obey.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// status shows text below all lines, on a terminal; "" takes it away.
func (u *UI) status(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if harmless(text) == u.footer {
		return
	}
	if u.footer != "" {
		fmt.Fprint(u.W, "\r\x1b[K")
	}
	if u.footer = harmless(text); text != "" {
		fmt.Fprintf(u.W, "gorun: %s", text)
	}
}

func (u *UI) Errorf(format string, args ...any)   { u.line("error: ", format, args...) }
func (u *UI) Hintf(format string, args ...any)    { u.aside("hint: ", format, args...) }
func (u *UI) Warningf(format string, args ...any) { u.aside("warning: ", format, args...) }
func (u *UI) Notef(format string, args ...any)    { u.aside("", format, args...) }

// aside is a line that --quiet leaves out.
func (u *UI) aside(kind, format string, args ...any) {
	if !u.Quiet {
		u.line(kind, format, args...)
	}
}

// Table writes lines that were asked for.
func (u *UI) Table(text string) {
	for line := range strings.Lines(text) {
		u.line("", "%s", strings.TrimRight(line, " \n"))
	}
}

// Tracef is for -v.
func (u *UI) Tracef(format string, args ...any) {
	if u.Verbose > 0 {
		u.line("", format, args...)
	}
}

// Report tells the user why there is no job.
func (u *UI) Report(err error) {
	var launch *launcher.LaunchError
	if errors.As(err, &launch) {
		u.ReportHosts(launch.Hosts)
		return
	}
	u.Errorf("%v", err)
	if h := usage.Hint(err); h != "" {
		u.Hintf("%s", h)
	}
}

// ReportHosts lists every failed host, hosts with one and the same reason on
// one line, and every hint once.
func (u *UI) ReportHosts(failed []launcher.HostError) {
	var reasons []string
	hosts := map[string][]string{}
	var hints []string
	seen := map[string]bool{}
	for _, f := range failed {
		// Errors of a connection name the host and its address themselves.
		reason := strings.TrimPrefix(strings.TrimPrefix(f.Err.Error(), f.Host+" "), f.Host+": ")
		if hosts[reason] == nil {
			reasons = append(reasons, reason)
		}
		hosts[reason] = append(hosts[reason], f.Host)
		if h := usage.Hint(f.Err); h != "" && !seen[h] {
			seen[h] = true
			hints = append(hints, h)
		}
	}
	for _, reason := range reasons {
		colon := ": "
		if strings.HasPrefix(reason, "(") { // the address or port of the host, before the reason
			colon = " "
		}
		u.Errorf("%s%s%s", NameHosts(hosts[reason]), colon, reason)
	}
	for _, h := range hints {
		u.Hintf("%s", h)
	}
}

// NameHosts lists hosts, the first few by name.
func NameHosts(hosts []string) string {
	const most = 8
	if len(hosts) <= most {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more hosts", strings.Join(hosts[:most], ", "), len(hosts)-most)
}
