// Package hostfile turns text into hosts with slots: the value of -H
// ([ParseList]), the lines of a hostfile ([Parse]) and a scheduler's allocation
// ([Default]). It resolves no names and runs no programs, and opens files only
// through functions of the caller.
//
// A hostfile line is one host, or several with ranges, in any of the spellings of
// mpirun, mpiexec, horovodrun and Slurm:
//
//	a                            # 1 slot
//	a:2                          // 2 slots
//	user@a slots=2 port=2222
//	[fd00::1]:2  max_slots=4
//	fe80::1%eth0 slots=2
//	f[01-16,20]:2                # f01 to f16, and f20
//	a slots=auto                 # one slot per core
//	^f13                         # not this one
//
// -H is a comma-separated list of the same first words: a:2,b,user@c:4,f[1-3]:2.
// A host that is named again (same name, user and port) adds its slots to its
// first mention. Names are used as they are written, domain included.
package hostfile

import (
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// Limits of the input. Slots are per host, after repeated mentions have been
// added up.
const (
	MaxBytes  = 4 << 20   // bytes of text
	MaxHosts  = 100_000   // different hosts
	MaxExpand = 65_536    // hosts of one hostlist expression
	MaxSlots  = 65535     // per host
	MaxPort   = 65535     //
	maxWords  = 1_048_576 // mentions of hosts in one text, after expansion of ranges
)

// Host is one host to run ranks on, as the user named it.
type Host struct {
	Name     string // the user's spelling, domain included; an IPv6 address has no brackets
	User     string // login name; "" leaves the choice to the user's SSH configuration
	Port     int    // SSH port; 0 leaves the choice to the user's SSH configuration
	Slots    int    // intended number of ranks, 1 to [MaxSlots]
	MaxSlots int    // maximum ranks, at least Slots; 0 means no limit
	GPUs     int    // the value of gpus=; 0 if absent
	Auto     bool   // whether one slot per core is requested; Slots is 1 until the caller has counted the cores
}

// Format returns hosts as a hostfile, one line each. [Parse] turns it back
// into the same hosts when no host in it is repeated.
func Format(hosts []Host) string {
	var b strings.Builder
	for _, h := range hosts {
		if h.User != "" {
			b.WriteString(h.User + "@")
		}
		if strings.Contains(h.Name, ":") {
			b.WriteString("[" + h.Name + "]")
		} else {
			b.WriteString(h.Name)
		}
		if h.Auto {
			b.WriteString(" slots=auto")
		} else {
			fmt.Fprintf(&b, " slots=%d", h.Slots)
		}
		for _, option := range []struct {
			key   string
			value int
		}{{"max_slots", h.MaxSlots}, {"gpus", h.GPUs}, {"port", h.Port}} {
			if option.value != 0 {
				fmt.Fprintf(&b, " %s=%d", option.key, option.value)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ParseError reports an invalid word of a hostfile, of -H or of a variable.
type ParseError struct {
	File string // the hostfile's name as given to [Parse]; "-H" from [ParseList]; a variable's name
	Line int    // 1-based; 0 outside of files, and if no single line is invalid
	Col  int    // 1-based column of Word's first byte; 0 if no single word is invalid
	Word string // the invalid word as written, or ""
	Msg  string // the error and, if helpful, what to write instead
}

// Error returns file:line:col: "word": message, without the parts that are not
// known. A long word is cut.
func (e *ParseError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Col > 0 {
		fmt.Fprintf(&b, ":%d", e.Col)
	}
	if e.Word != "" {
		fmt.Fprintf(&b, ": %q", prose.Cut(e.Word, 60))
	}
	return b.String() + ": " + e.Msg
}
