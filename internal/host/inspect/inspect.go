// Package inspect looks at the processes of a host's ranks: what they wait for, their sockets, and
// their stacks. It runs in a process of its own below the agent, so that debuggers can be waited
// for, and so that nothing it meets harms the agent.
package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/sight/flight"
	"github.com/gorun/gorun/internal/sight/ras"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// limit bounds the time for all ranks of a host.
const limit = 4 * time.Second

const (
	grace = 500 * time.Millisecond // time for what is under way at the limit to notice it
	turn  = 2 * time.Second        // time after which another one begins beside one that does not end
)

// Command is gorun's hidden command that runs Main.
const Command = "__stacks"

// pulseArg makes Main report whether ranks make progress instead of their stacks.
const pulseArg = "--pulse"

// Args returns the arguments of Main.
func Args(pids map[int]int, pulse bool) (args []string) {
	if pulse {
		args = append(args, pulseArg)
	}
	for rank, pid := range pids {
		args = append(args, fmt.Sprintf("%d=%d", rank, pid))
	}
	return args
}

// Main writes a stacks.Rank as JSON, or a stacks.Pulse, for each argument RANK=PID.
func Main(ctx context.Context, args []string, out io.Writer) error {
	pulse := len(args) > 0 && args[0] == pulseArg
	if pulse {
		args = args[1:]
	}
	unbind()
	boundMemory(maxMemory)
	ranks := make([]int, len(args))
	pids := make([]int, len(args))
	for i, arg := range args {
		var err error
		if ranks[i], pids[i], err = parseArg(arg); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	host := newHost(contain.Descendants(os.Getppid()))
	width := max(4, runtime.NumCPU())
	if pulse {
		return write(out, inTime(ctx, len(ranks), width, func(i int) stacks.Pulse {
			return host.pulse(ranks[i], pids[i])
		}))
	}
	looks := inTime(ctx, len(ranks), width, func(i int) *look { return host.look(ctx, ranks[i], pids[i]) })
	finish(ctx, looks)
	reports := map[int]stacks.Rank{}
	for i, rank := range ranks {
		reports[i] = stacks.Rank{Rank: rank, Error: "its memory, or a file of its, does not answer"}
		if l := looks[i]; l != nil {
			reports[i] = bounded(l.result(), len(ranks))
		}
	}
	return write(out, reports)
}

// bounded returns a report of one of so many ranks, or an error in the place of one that is longer
// than its share: gorun would refuse those of the other ranks with it.
func bounded(report stacks.Rank, ranks int) stacks.Rank {
	share := stacks.MaxReport
	if report.Rank != 0 { // NCCL tells rank 0 of all ranks
		share = min(share, (stacks.MaxReports-stacks.MaxReport)/ranks)
	}
	text, err := json.Marshal(report)
	if err != nil || len(text) >= share {
		return stacks.Rank{Rank: report.Rank, Error: fmt.Sprintf("a report of more than %d bytes", share)}
	}
	return report
}

// write writes reports as JSON.
func write[T any](out io.Writer, reports map[int]T) (err error) {
	encode := json.NewEncoder(out)
	for _, i := range slices.Sorted(maps.Keys(reports)) {
		err = cmp.Or(err, encode.Encode(reports[i]))
	}
	return err
}

// inTime calls do for the numbers below n, at most width at a time, and returns what came before
// the end of ctx and grace. It leaves the others behind: a rank's memory, or a file that a tool
// reads, may be on a file system that does not answer, and no signal ends that wait.
func inTime[T any](ctx context.Context, n, width int, do func(i int) T) map[int]T {
	type one struct {
		i    int
		done T
	}
	ended := make(chan one, n)
	room := make(chan struct{}, width)
	go func() {
		for i := range n {
			room <- struct{}{}
			go func() {
				leave := sync.OnceFunc(func() { <-room })
				defer leave()
				defer time.AfterFunc(turn, leave).Stop()
				ended <- one{i, do(i)}
			}()
		}
	}()
	all := map[int]T{}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })
	defer stop()
	for len(all) < n {
		select {
		case e := <-ended:
			all[e.i] = e.done
		case <-late:
			return all
		}
	}
	return all
}

// finish adds to the looks what takes long: what NCCL and PyTorch tell, and the stacks by tools.
func finish(ctx context.Context, looks map[int]*look) {
	var all []*look
	for _, i := range slices.Sorted(maps.Keys(looks)) {
		all = append(all, looks[i])
	}
	told := make(chan map[int]gpuCalls, 1)
	go func() { told <- inTime(ctx, len(all), len(all), func(i int) gpuCalls { return all[i].gpuCalls(ctx) }) }()
	silent := odd(all)
	copies := make([]subject, len(silent)) // a tool that does not end keeps its own
	for i, s := range silent {
		copies[i] = *s
	}
	traced := inTime(ctx, len(silent), runtime.NumCPU(), func(i int) stacks.Process {
		copies[i].trace(ctx, true)
		return copies[i].report
	})
	for i, s := range silent {
		report, is := traced[i]
		if !is {
			report = s.report
			report.Unknown = "a tool waits for its memory, or for a file of its, which does not answer"
		}
		s.report = report
		s.busy = !is
	}
	answers := <-told
	for i, l := range all {
		if calls, is := answers[i]; is {
			l.add(calls)
			continue
		}
		l.report.NoFlight = "its file does not answer"
		for _, s := range l.subjects {
			s.busy = true
		}
	}
}

// odd returns the processes that have not told their stacks themselves: those first of which few do
// the same, because debuggers take long and the time may end before all are read.
func odd(looks []*look) (silent []*subject) {
	alike := map[string]int{}
	for _, l := range looks {
		for _, s := range l.subjects {
			if s.own != nil && len(s.report.Threads) == 0 && s.State != 'Z' {
				silent = append(silent, s)
				alike[s.kind()]++
			}
		}
	}
	slices.SortStableFunc(silent, func(a, b *subject) int { return cmp.Compare(alike[a.kind()], alike[b.kind()]) })
	return silent
}

// kind is what /proc says of the process, the same for processes that do the same.
func (s *subject) kind() string {
	return s.report.Name + "\x00" + s.report.State + "\x00" + s.report.Waits + "\x00" + s.report.Kernel
}

func parseArg(arg string) (rank, pid int, err error) {
	first, second, _ := strings.Cut(arg, "=")
	if rank, err = strconv.Atoi(first); err == nil {
		pid, err = strconv.Atoi(second)
	}
	if err != nil || rank < 0 || pid <= 1 {
		return 0, 0, fmt.Errorf("%q: expected RANK=PID", arg)
	}
	return rank, pid, nil
}

// unbind leaves the CPUs to which the agent has bound the last rank: it may use them fully.
func unbind() {
	var all unix.CPUSet
	for i := range 1024 {
		all.Set(i)
	}
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &all) // the kernel keeps to what this process may use
		}
	}
}

// maxMemory bounds the memory of this process, and that of each tool.
const maxMemory = 4 << 30

// boundMemory keeps this process, and those that it starts, from taking so many more bytes of
// memory. The files of a rank say how much debug/dwarf and tools allocate for them. If more is
// asked for, the process ends, and the agent says so.
func boundMemory(more uint64) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 6 {
		return
	}
	pages, err := strconv.ParseUint(fields[5], 10, 64)
	if err != nil {
		return
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return
	}
	limit.Cur = min(limit.Cur, pages*uint64(os.Getpagesize())+more)
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &limit) // without it the memory of the host is the bound
}

// host is what the ranks of a host share. It is safe for concurrent use.
type host struct {
	below map[int][]contain.Process // processes by parent

	lines sources

	mu      sync.Mutex
	sockets map[string]map[string]string // names by inode, by network namespace
}

// newHost takes all processes below the agent.
func newHost(all []contain.Process) *host {
	h := &host{below: map[int][]contain.Process{}, sockets: map[string]map[string]string{}}
	for _, p := range all {
		h.below[p.Parent] = append(h.below[p.Parent], p)
	}
	for _, children := range h.below {
		slices.SortFunc(children, func(a, b contain.Process) int { return cmp.Compare(a.Started, b.Started) })
	}
	return h
}

// family returns a process and all below it, parents first.
func (h *host) family(own contain.Process) []contain.Process {
	all := []contain.Process{own}
	for i := 0; i < len(all) && len(all) < stacks.MaxProcesses; i++ {
		all = append(all, h.below[all[i].PID]...)
	}
	return all[:min(len(all), stacks.MaxProcesses)]
}

// socketsOf returns the TCP sockets of a process's network, by inode.
func (h *host) socketsOf(p *process.Process) map[string]string {
	namespace := p.Link("ns/net")
	h.mu.Lock()
	defer h.mu.Unlock()
	names, known := h.sockets[namespace]
	if !known {
		names = socketNames(p)
		h.sockets[namespace] = names
	}
	return names
}

// look holds the findings about a rank.
type look struct {
	report   stacks.Rank // report without its processes
	subjects []*subject
	flight   *recording // nil: it has none
}

// gpuCalls are the collectives on GPUs that PyTorch and NCCL report.
type gpuCalls struct {
	flight   *flight.Dump
	noFlight string // reason why the flight recorder did not answer
	ras      *ras.Status
}

func (l *look) gpuCalls(ctx context.Context) (c gpuCalls) {
	var work sync.WaitGroup
	if l.flight != nil {
		work.Go(func() {
			dump, err := l.flight.read(ctx)
			if c.flight = dump; err != nil {
				c.noFlight = err.Error()
			}
		})
	}
	if l.report.Rank == 0 { // an answer is about the whole job
		work.Go(func() { c.ras = l.readRAS(ctx) })
	}
	work.Wait()
	return c
}

func (l *look) readRAS(ctx context.Context) *ras.Status {
	for _, s := range l.subjects {
		if addr, listens := s.rasAddr(); listens {
			status, err := askRAS(ctx, addr, l.subjects)
			if err != nil && !errors.Is(err, errElsewhere) {
				return &ras.Status{Lines: []string{err.Error()}}
			}
			return status
		}
	}
	return nil
}

func (l *look) add(c gpuCalls) {
	l.report.Flight = c.flight
	l.report.RAS = c.ras
	l.report.NoFlight = cmp.Or(l.report.NoFlight, c.noFlight)
}

// look returns what the rank with the process pid does, as far as /proc and its processes
// themselves tell.
func (h *host) look(ctx context.Context, rank, pid int) *look {
	l := &look{report: stacks.Rank{Rank: rank}}
	own, err := contain.ReadProcess(pid)
	if err != nil {
		l.report.Error = "it has ended"
		return l
	}
	for _, p := range h.family(own) {
		s := newSubject(p, &h.lines)
		l.subjects = append(l.subjects, s)
		if s.own == nil {
			continue
		}
		s.read(h)
		if s.record != nil {
			if snapshot, err := s.record.Read(); err == nil && l.report.Record == nil {
				l.report.Record = &snapshot
			}
		}
		if l.flight == nil && l.report.NoFlight == "" {
			if l.flight, err = s.askFlight(); err != nil {
				l.report.NoFlight = err.Error()
			}
		}
		s.trace(ctx, false)
		if s.record != nil {
			s.record.Close()
		}
	}
	return l
}

func (l *look) result() stacks.Rank {
	for _, s := range l.subjects {
		l.report.Processes = append(l.report.Processes, s.report)
		if !s.busy {
			s.close()
		}
	}
	l.report.Trim()
	return l.report
}

// subject is a process that is looked at.
type subject struct {
	contain.Process
	own         *process.Process // nil: it has ended, or is another user's
	environment process.Environment
	report      stacks.Process
	record      *recorder.Reader // nil: it has none
	lines       *sources
	busy        bool // whether somebody may still read its files
}

// newSubject opens a process. Of one of another user the report is what the process table has: its
// files, its environment and its program are that user's to choose.
func newSubject(p contain.Process, lines *sources) *subject {
	s := &subject{Process: p, lines: lines}
	s.report = stacks.Process{
		PID:    s.PID,
		Parent: s.Parent,
		Name:   "[" + s.Name + "]",
		State:  string(s.State),
	}
	own, err := process.Open(p.PID)
	if foreign := new(process.ForeignError); errors.As(err, &foreign) {
		s.report.Unknown = fmt.Sprintf("it runs as user %d, whose processes gorun leaves alone", foreign.UID)
		return s
	}
	if again, gone := contain.ReadProcess(p.PID); err != nil || gone != nil || again.Started != p.Started {
		s.report.Unknown = "it has ended"
		if err == nil {
			own.Close()
		}
		return s
	}
	s.own = own
	s.environment, _ = own.Environment()
	return s
}

func (s *subject) close() {
	if s.own != nil {
		s.own.Close()
	}
}

// read fills in what /proc has.
func (s *subject) read(h *host) {
	s.report.Name = s.title()
	s.report.Tasks = len(s.own.Names("task"))
	if text, err := s.own.Text("wchan"); err == nil && text != "0" {
		s.report.Kernel = text
	}
	names := h.socketsOf(s.own)
	s.report.Waits = s.waits(names)
	s.report.Sockets = s.sockets(names, stacks.MaxSockets)
	s.record, _ = recorder.Open(s.PID)
}

// title is the program's name and its first argument, which names a script.
func (s *subject) title() string {
	text, _ := s.own.Text("cmdline")
	words := strings.Split(strings.TrimRight(text, "\x00"), "\x00")
	title := words[0]
	if title == "" {
		return "[" + s.Name + "]"
	}
	title = title[strings.LastIndexByte(title, '/')+1:]
	for _, word := range words[1:min(len(words), 4)] {
		if word == "-c" || word == "-e" {
			break // a program as an argument
		}
		title += " " + word
		if !strings.HasPrefix(word, "-") {
			break
		}
	}
	return title
}

// trace reads the stacks by the first way that works: those of a process that tells them itself, or
// by tools.
func (s *subject) trace(ctx context.Context, tools bool) {
	if s.State == 'Z' {
		s.report.Unknown = "it has ended, and its parent has not waited for it"
		return
	}
	var refused []string
	if s.report.Unknown != "" {
		refused = append(refused, s.report.Unknown)
	}
	for _, way := range s.ways() {
		if way.tool != tools {
			continue
		}
		if ctx.Err() != nil {
			refused = append(refused, fmt.Sprintf("no time was left for %s", way.name))
			break
		}
		// It may have changed its users since, and a debugger of root's would believe its files.
		if err := s.own.Own(); err != nil {
			refused = append(refused, err.Error())
			break
		}
		threads, err := way.read(ctx)
		if err == nil && len(threads) > 0 {
			s.report.By = way.name
			s.report.Threads = threads
			s.report.Unknown = ""
			if way.native && s.isPython() {
				s.report.Hint = "to see functions of Python, install py-spy in the ranks' environment, or import " +
					"gorun in the program"
			}
			return
		}
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", way.name, err))
		}
	}
	s.report.Unknown = strings.Join(refused, "; ")
	if len(refused) == 0 && tools {
		s.report.Unknown = "eu-stack and gdb are not in PATH on the host, where nobody else can change them"
	}
}

// way is a way to read stacks.
type way struct {
	name   string
	tool   bool // it takes long
	native bool // it shows functions of C
	read   func(context.Context) ([]stacks.Thread, error)
}

// ways returns those that may work, the best first.
func (s *subject) ways() (ways []way) {
	python := s.isPython()
	if fd, signal, found := s.faults(); found {
		ways = append(ways, way{"faulthandler", false, false, func(ctx context.Context) ([]stacks.Thread, error) {
			return s.askFaults(ctx, fd, signal)
		}})
	}
	ways = append(ways, way{"memory", false, false, func(context.Context) ([]stacks.Thread, error) {
		threads, err := s.frames()
		if !python && errors.Is(err, errUntraceable) {
			return nil, nil // a tool says so, if there is one
		}
		return threads, err
	}})
	if python {
		if path := s.find("py-spy"); path != "" {
			ways = append(ways, way{"py-spy", true, false, func(ctx context.Context) ([]stacks.Thread, error) {
				return s.pySpy(ctx, path)
			}})
		}
	}
	if s.record != nil && !python {
		ways = append(ways, way{"goroutines", false, false, func(context.Context) ([]stacks.Thread, error) {
			text, err := s.record.Goroutines(time.Second)
			if err == recorder.ErrNoGoroutines {
				return nil, nil
			}
			return parseGoroutines(text), err
		}})
	}
	if path := s.find("eu-stack"); path != "" {
		ways = append(ways, way{"eu-stack", true, true, func(ctx context.Context) ([]stacks.Thread, error) {
			return s.euStack(ctx, path)
		}})
	}
	if path := s.find("gdb"); path != "" {
		ways = append(ways, way{"gdb", true, true, func(ctx context.Context) ([]stacks.Thread, error) {
			return s.gdb(ctx, path)
		}})
	}
	if python && !slices.ContainsFunc(ways, func(w way) bool { return w.tool }) {
		ways = append(ways, way{"Python", true, false, func(context.Context) ([]stacks.Thread, error) {
			return nil, fmt.Errorf("install py-spy in the rank's environment, or import gorun in the program")
		}})
	}
	return ways
}
