package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// BenchmarkLaunch starts `true` on 16 hosts × 2 ranks, and for comparison runs
// `true` once on each of the same hosts over bare SSH. Both sides alternate in
// one run; the figures are medians of whole processes, from exec to exit.
func BenchmarkLaunch(b *testing.B) {
	const hosts = 16
	c := lab.MustNamespaces(b, lab.Specs(hosts)...)
	var names, addrs []string
	for _, h := range c.Hosts {
		names = append(names, h.Name+":2")
		addrs = append(addrs, net.JoinHostPort(h.Addr, fmt.Sprint(h.Port)))
	}
	gorun := []string{binary("gorun"), "-F", c.ConfigFile, "-H", strings.Join(names, ","), "true"}
	bare := append([]string{binary("fanout"), c.Identity, "root", c.KnownHosts, "true"}, addrs...)
	timed(b, c, gorun) // warm
	timed(b, c, bare)
	var ours, theirs []time.Duration
	for b.Loop() {
		theirs = append(theirs, timed(b, c, bare))
		ours = append(ours, timed(b, c, gorun))
	}
	b.ReportMetric(median(ours).Seconds()*1000, "gorun-ms")
	b.ReportMetric(median(theirs).Seconds()*1000, "bare-ssh-ms")
	b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "ratio")
}

func timed(b *testing.B, c *lab.Cluster, argv []string) time.Duration {
	b.Helper()
	cmd := c.Command(b.Context(), argv...)
	begun := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%q: %v: %s", argv, err, out)
	}
	return time.Since(begun)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
