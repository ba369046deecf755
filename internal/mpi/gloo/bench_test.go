package gloo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/test/must"
)

// Words that make this test binary the hosts of a job, or some of its ranks.
const (
	hostsWord = "__hosts"
	ranksWord = "__ranks"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) < 4:
		os.Exit(m.Run())
	case os.Args[1] == hostsWord:
		err = playHosts(numbers(os.Args[2:]))
	case os.Args[1] == ranksWord:
		err = playRanks(numbers(os.Args[2:]))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1:], err)
		os.Exit(1)
	}
}

func numbers(words []string) (n []int) {
	for _, w := range words {
		i, _ := strconv.Atoi(w)
		n = append(n, i)
	}
	return n
}

// playHosts answers the ranks of a job until stdin ends, as the agents of all its hosts would
// together: only to the own user. It prints the ranks' ports, and at the end what it has used.
func playHosts(job []int) error {
	ctx, cancel := context.WithCancel(context.Background())
	h, err := openHosts(ctx, job[0], job[1], func() func(net.Conn) bool {
		var peers admit.Peers // for as long as the process
		return func(conn net.Conn) bool {
			uid, err := peers.UID(conn)
			return err == nil && admit.IsOwn(uid)
		}
	})
	if err != nil {
		cancel()
		return err
	}
	fmt.Println(strings.Trim(fmt.Sprint(h.ports), "[]"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	h.close()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	memory, err := mostResident()
	fmt.Println(used.Utime.Nano()+used.Stime.Nano(), memory, h.store.gets.Load())
	return err
}

// mostResident is the most memory that this process has had, in KiB. Unlike getrusage's it does not
// count what its parent had.
func mostResident() (kib int, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	_, err = fmt.Sscan(after, &kib)
	return kib, err
}

// playRanks is one of several processes that have the ranks of a job among them, by hosts. It waits
// for a line with the ports.
func playRanks(job []int) error {
	size := job[0]
	perHost := job[1]
	part := job[2]
	parts := job[3]
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	w := &world{size: size, perHost: perHost, ports: numbers(strings.Fields(line))}
	for rank := range size {
		if rank/perHost%parts == part {
			w.ranks = append(w.ranks, rank)
		}
	}
	if err := w.rendezvous(0, atOnce); err != nil {
		return err
	}
	fmt.Println(w.requests.Load())
	return nil
}

// player is one process of a benchmark.
type player struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func play(b *testing.B, word string, job ...int) *player {
	b.Helper()
	args := []string{word}
	for _, n := range job {
		args = append(args, strconv.Itoa(n))
	}
	p := &player{cmd: exec.CommandContext(b.Context(), "/proc/self/exe", args...)}
	p.cmd.Stderr = os.Stderr
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	must.OK(b, p.cmd.Start())
	p.in = in
	p.out = bufio.NewReader(out)
	return p
}

// line returns the next line that the process prints.
func (p *player) line(b *testing.B) string {
	b.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatalf("%q: %v", p.cmd.Args[1:], err)
	}
	return line
}

func (p *player) end(b *testing.B) {
	b.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		b.Fatalf("%q: %v", p.cmd.Args[1:], err)
	}
}

// benchmarkRendezvous makes the ranks of a job connect. Ranks are other processes, so memory and
// CPU are the hosts' alone; the time includes both, because they share the processors.
func benchmarkRendezvous(b *testing.B, size, perHost int) {
	const parts = 8
	var took, cpu time.Duration
	var memory, gets, requests int
	for b.Loop() {
		hosts := play(b, hostsWord, size, perHost)
		ports := hosts.line(b)
		var ranks []*player
		for part := range parts {
			p := play(b, ranksWord, size, perHost, part, parts)
			p.line(b)
			ranks = append(ranks, p)
		}
		begun := time.Now()
		for _, p := range ranks {
			must.Get(io.WriteString(p.in, ports))(b)
		}
		requests = 0
		for _, p := range ranks {
			requests += numbers(strings.Fields(p.line(b)))[0]
		}
		took += time.Since(begun)
		for _, p := range ranks {
			p.end(b)
		}
		hosts.in.Close()
		used := numbers(strings.Fields(hosts.line(b)))
		hosts.end(b)
		cpu += time.Duration(used[0])
		memory = max(memory, used[1])
		gets = used[2]
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // it counts the start of the processes, too
	b.ReportMetric(took.Seconds()/n, "s")
	b.ReportMetric(float64(requests), "requests")
	b.ReportMetric(float64(gets), "gets")
	b.ReportMetric(cpu.Seconds()/n, "hosts-cpu-s")
	b.ReportMetric(float64(cpu.Microseconds())/n/float64(requests), "hosts-cpu-µs/request")
	b.ReportMetric(float64(memory)/1024, "hosts-MiB")
}

func BenchmarkRendezvous(b *testing.B) {
	for _, size := range []int{8, 32, 128, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkRendezvous(b, size, 8) })
	}
}

// hosts are all of a job's, in one process.
type hosts struct {
	ports     []int // by rank
	store     *store
	listeners []net.Listener
	hosts     []*Host
	wg        sync.WaitGroup
}

// openHosts serves ranks until close, which is to come after the end of ctx. admit makes the door
// of each.
func openHosts(ctx context.Context, size, perHost int, admit func() func(net.Conn) bool) (*hosts, error) {
	h := &hosts{store: newStore()}
	var host *Host
	for rank := range size {
		if rank%perHost == 0 {
			host = NewHost(ctx, h.store)
			h.hosts = append(h.hosts, host)
		}
		l, err := Listen()
		if err != nil {
			return nil, err
		}
		r := host.Rank()
		door := admit()
		h.wg.Go(func() { r.Serve(l, door) })
		h.listeners = append(h.listeners, l)
		h.ports = append(h.ports, l.Addr().(*net.TCPAddr).Port)
	}
	return h, nil
}

func (h *hosts) close() {
	for _, l := range h.listeners {
		l.Close()
	}
	h.wg.Wait()
	for _, host := range h.hosts {
		host.Wait()
	}
}
