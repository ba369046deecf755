package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launcher"
)

// prefixer returns what starts every line of a rank's output in the given
// style, or nil for none.
func prefixer(style string, plan launcher.Plan) (func(rank, fd int) []byte, error) {
	template := style
	switch style {
	case "none":
		return nil, nil
	case "", "host":
		return hostPrefix(plan), nil
	case "rank":
		template = "[%r] "
	case "horovod":
		template = "[%r]<%s>:"
	case "mpirun":
		template = "[1,%r]<%s>:"
	default:
		if !strings.Contains(style, "%") {
			return nil, usagef("choose host, rank, horovod, mpirun or none, or write your own with %r (rank), %h (host) and %s (stdout or stderr)",
				"--prefix %q is not a style", style)
		}
	}
	hosts := hostsByRank(plan)
	return cached(plan.Size, func(rank, fd int) string {
		return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", hosts[rank], "%s", streamName(fd), "%%", "%").Replace(template)
	}), nil
}

// hostPrefix is "f1:0: ", padded so that texts line up.
func hostPrefix(plan launcher.Plan) func(rank, fd int) []byte {
	hosts := hostsByRank(plan)
	width := 0
	for rank, host := range hosts {
		width = max(width, len(host)+len(strconv.Itoa(rank)))
	}
	return cached(plan.Size, func(rank, _ int) string {
		name := fmt.Sprintf("%s:%d:", shortName(hosts[rank]), rank)
		return fmt.Sprintf("%-*s ", width+2, name)
	})
}

func hostsByRank(plan launcher.Plan) []string {
	hosts := make([]string, plan.Size)
	for _, h := range plan.Hosts {
		for _, r := range h.Ranks {
			hosts[r.Rank] = shortName(h.Name)
		}
	}
	return hosts
}

// shortName is a host's name without its domain; addresses stay whole.
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

// cached computes every prefix once. Each fd's prefixes are asked for by one
// goroutine.
func cached(size int, text func(rank, fd int) string) func(rank, fd int) []byte {
	known := [2][][]byte{make([][]byte, size), make([][]byte, size)}
	return func(rank, fd int) []byte {
		p := &known[fd-1][rank]
		if *p == nil {
			*p = []byte(text(rank, fd))
		}
		return *p
	}
}
