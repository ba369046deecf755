package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// S3: --encrypt reaches the ranks, whose results are the same bits as without.
func TestS3Encrypt(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	clear := lossBits(t, start(t, c, "-np", "4", "-H", "f1:2,f2:2", binary("mnist")).want(0), 4)
	sealed := lossBits(t, start(t, c, "--encrypt", "-np", "4", "-H", "f1:2,f2:2", binary("mnist")).want(0), 4)
	if clear != sealed {
		t.Errorf("losses %s and, encrypted, %s", clear, sealed)
	}
	for flag, want := range map[string]string{"--encrypt": "is 1\n", "--encrypt=false": "is\n"} {
		// What surrounds gorun says nothing about its job.
		r := startIn(t, c, []string{"GORUN_ENCRYPT=1"}, flag, "--prefix", "none", "-H", "f1", "sh", "-c", "echo is $GORUN_ENCRYPT").want(0)
		if r.out.String() != want {
			t.Errorf("%s: GORUN_ENCRYPT %q, want %q", flag, r.out.String(), want)
		}
	}
}

// withAgents are pids, and the agents among their parents: what surrounds gorun is not
// sent to them.
func withAgents(pids []int) []int {
	all := slices.Clone(pids)
	for _, pid := range pids {
		_, after, _ := strings.Cut(procFile(pid, "stat"), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 {
			continue // it is over
		}
		parent, err := strconv.Atoi(fields[1])
		if err == nil && strings.Contains(procFile(parent, "cmdline"), "__serve") {
			all = append(all, parent)
		}
	}
	return all
}

// listenersOf are the TCP addresses at which processes listen.
func listenersOf(t *testing.T, pids []int) map[netip.AddrPort]int {
	t.Helper()
	owner := map[string]int{} // of sockets, by inode
	for _, pid := range pids {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // it may be over
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil {
				owner[to] = pid
			}
		}
	}
	found := map[netip.AddrPort]int{}
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + name)
		if err != nil {
			lab.Skip(t, "no /proc/net here")
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			field := strings.Fields(line)
			if len(field) < 10 || field[3] != "0A" || owner["socket:["+field[9]+"]"] == 0 {
				continue
			}
			addr, port, _ := strings.Cut(field[1], ":")
			raw, err := hex.DecodeString(addr)
			number, perr := strconv.ParseUint(port, 16, 16)
			if err != nil || perr != nil {
				t.Fatal(line)
			}
			for i := 0; i < len(raw); i += 4 { // words in the machine's order
				raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
			}
			ip, _ := netip.AddrFromSlice(raw)
			found[netip.AddrPortFrom(ip.Unmap(), uint16(number))] = owner["socket:["+field[9]+"]"]
		}
	}
	return found
}

// S1: whenever one looks, gorun and its ranks listen on nothing but the agents' doors, on
// loopback, and the ranks' own ports while they join; strangers get nothing there but, at a
// door, a refusal.
func TestS1Listeners(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	r := start(t, c, "--encrypt", "-np", "4", "-H", "f1:2,f2:2", "-x", "RING_TRANSPORT=tcp", binary("mnist"), "--epochs", "100000")
	begun, doors, ranks := time.Now(), 0, 0
	var joined time.Time
	for joined.IsZero() || time.Since(joined) < time.Second {
		doors = 0
		for addr, pid := range listenersOf(t, withAgents(lab.Processes(r.mark))) {
			rank := strings.HasPrefix(procFile(pid, "cmdline"), binary("mnist"))
			switch {
			case rank && addr.Addr().IsUnspecified(), !rank && !addr.Addr().IsLoopback():
				t.Errorf("process %d listens on %s: %q", pid, addr, procFile(pid, "cmdline"))
			case rank:
				ranks++
			default:
				doors++
			}
			for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", "gorunrng\x00\x02"} {
				got := replyOf(addr, text)
				if rank && got != "" || got != "" && !strings.HasPrefix(got, "HTTP/1.1 4") {
					t.Errorf("%s answers a stranger %q", addr, got)
				}
			}
		}
		if joined.IsZero() && r.out.Len() > 0 {
			joined = time.Now()
		}
		if time.Since(begun) > 60*time.Second {
			t.Fatalf("the ranks do not train:\n%s", &r.err)
		}
	}
	if doors != 2 {
		t.Errorf("%d doors, want one a host", doors)
	}
	t.Logf("%d looks at ports of ranks", ranks)
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait()
	r.nothingLeft(10 * time.Second)
}

// replyOf is what a stranger gets who says text.
func replyOf(addr netip.AddrPort, text string) string {
	conn, err := net.DialTimeout("tcp", addr.String(), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(text)) // it may be cut off at once
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	got, _ := io.ReadAll(conn)
	return string(got)
}
