package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// copied is a lab whose hosts get a file.
type copied struct {
	testing.TB
	hosts *lab.Cluster
	file  string
	data  []byte
}

func newCopied(t testing.TB, hosts, size int) *copied {
	c := &copied{TB: t, hosts: lab.MustNamespaces(t, lab.Specs(hosts)...), data: make([]byte, size)}
	rand.Read(c.data)
	c.file = filepath.Join(c.hosts.Dir, "data")
	must.OK(t, os.WriteFile(c.file, c.data, 0o644))
	return c
}

func (c *copied) names() string {
	var names []string
	for _, h := range c.hosts.Hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, ",")
}

// copy runs gorun cp, and checks the file on every host. It returns what gorun says, and how long
// it took.
func (c *copied) copy(to string) (said string, took time.Duration) {
	c.Helper()
	began := time.Now()
	cmd := c.hosts.Command(c.Context(), command.Binary("gorun"), "cp", "-F", c.hosts.ConfigFile, "-v", c.file,
		c.names()+":"+to)
	out, err := cmd.CombinedOutput()
	must.That(c, err == nil, "gorun cp: %v\n%s", err, out)
	took = time.Since(began)
	for _, h := range c.hosts.Hosts {
		got, err := os.ReadFile(filepath.Join(h.Home, to, "data"))
		check.That(c, err == nil && bytes.Equal(got, c.data),
			"%s has %d bytes of %d, or others: %v", h.Name, len(got), len(c.data), err)
		if left, _ := os.ReadDir(filepath.Join(h.Home, to)); len(left) != 1 {
			c.Errorf("%s has %v", h.Name, left)
		}
	}
	return string(out), took
}

// gorun cp sends a file once, if hosts reach each other, and to each of them if they do not.
func TestFilesArePassedOn(t *testing.T) {
	c := newCopied(t, 4, 3_000_000)
	said, _ := c.copy("new/dir")
	check.That(t, strings.Contains(said, "1 file, 3.0 MB, copied to 4 hosts in ") &&
		strings.Contains(said, "; 3.0 MB left this machine"), "gorun says %s", said)
	said, _ = c.copy("new/dir")
	check.That(t, strings.Contains(said, "; 0 bytes left this machine"), "nothing has changed, and gorun says %s", said)
	for i, a := range c.hosts.Hosts {
		for _, b := range c.hosts.Hosts[i+1:] {
			must.OK(t, c.hosts.Part(t.Context(), a.Name, b.Name))
		}
	}
	if said, _ := c.copy("apart"); !strings.Contains(said, "; 12.0 MB left this machine") {
		t.Errorf("hosts do not reach each other, and gorun says %s", said)
	}
}

// BenchmarkCopy copies a file of COPY_MIB MiB (default 64) to 8 hosts whose links carry 400 Mbit/s
// each, and to one of them. The first should take at most 1.25 times as long.
func BenchmarkCopy(b *testing.B) {
	mib := 64
	if text := os.Getenv("COPY_MIB"); text != "" {
		var err error
		if mib, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	c := newCopied(b, 8, mib<<20)
	for _, h := range c.hosts.Hosts {
		must.OK(b, c.hosts.Narrow(b.Context(), h.Name, 400_000))
	}
	whole := c.hosts.Hosts
	n := 0
	took := func(hosts []lab.Host) float64 {
		c.hosts.Hosts = hosts
		defer func() { c.hosts.Hosts = whole }()
		n++
		_, took := c.copy(fmt.Sprint("dir", n))
		for _, h := range hosts {
			must.OK(b, os.RemoveAll(filepath.Join(h.Home, fmt.Sprint("dir", n))))
		}
		return took.Seconds()
	}
	took(whole) // brings gorun there
	var one, all []float64
	for b.Loop() {
		one = append(one, took(whole[:1]))
		all = append(all, took(whole))
	}
	b.ReportMetric(median(one), "s-to-1-host")
	b.ReportMetric(median(all), "s-to-8-hosts")
	b.ReportMetric(median(all)/median(one), "8-hosts/1-host")
}

// Nothing of a file stays on a disk that it does not fit on, and the disk is named with its room.
func TestFullDiskKeepsNoPartOfAFile(t *testing.T) {
	c := newCopied(t, 2, 6<<20)
	for _, h := range c.hosts.Hosts {
		must.OK(t, c.hosts.Disk(t.Context(), h.Name, "/mnt", 4<<10))
	}
	cmd := c.hosts.Command(t.Context(), command.Binary("gorun"), "cp", "-F", c.hosts.ConfigFile, c.file,
		c.names()+":/mnt")
	out, err := cmd.CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(out),
		"no space left on device: the file system at /mnt has 4 MiB free, and 6 MiB are needed"),
		"%v: %s", err, out)
	for _, h := range c.hosts.Hosts {
		left, err := c.hosts.On(t.Context(), h.Name, "ls", "-A", "/mnt").Output()
		check.That(t, err == nil && len(left) == 0, "%s keeps %q, %v", h.Name, left, err)
	}
}
