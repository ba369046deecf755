package srun

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/callback"
	"github.com/gorun/gorun/internal/prose"
)

// Command is the hidden command of a node's process in a step of all nodes: a resident agent that
// connects back.
const Command = "__step"

// Together describes the processes that one step starts on all nodes, each of which connects back
// and starts the agents of its node.
type Together struct {
	Nodes  []string
	Argv   func() []string // argv of a node's process
	Build  string          // build of the agents
	Apart  string          // why nodes get steps of their own all the same; "": nothing is against one
	Within time.Duration   // time limit of connecting; nodes that have not get steps of their own
	// Note gets a line for the user where steps of their own cost time in every job, Trace those
	// that -v prints.
	Note, Trace func(format string, args ...any)
}

// step is one job step on all nodes.
type step struct {
	Together
	steps *Steps

	begin    sync.Once
	listener *callback.Listener
	ended    chan struct{} // closed when srun has ended
	cancel   context.CancelFunc
	late     *time.Timer

	mu    sync.Mutex
	nodes map[string]*member
	users int // open hosts that Dial has returned, and running calls of Dial
	over  bool
}

// member is a node of a step.
type member struct {
	known  chan struct{}    // closed when the node has connected, or will not
	client *resident.Client // nil: the node will not connect
	build  string
}

// newStep returns the step of all nodes that t describes; nil if the job allows none, or gains
// nothing from it.
func newStep(s *Steps, t Together) *step {
	t.Nodes = slices.DeleteFunc(slices.Clone(t.Nodes), func(node string) bool { return !s.Job.Has(node) })
	if len(t.Nodes) < 2 {
		return nil
	}
	switch {
	case t.Apart != "":
	case s.Job.Hetero:
		t.Apart = "the Slurm job is heterogeneous"
	case t.Build == "":
		t.Apart = "the nodes cannot run this gorun"
	}
	if t.Apart != "" {
		t.Trace("%s: each a step of its own: %s", prose.List(t.Nodes), t.Apart)
		return nil
	}
	st := &step{
		Together: t,
		steps:    s,
		ended:    make(chan struct{}),
		nodes:    map[string]*member{},
	}
	for _, node := range t.Nodes {
		st.nodes[node] = &member{known: make(chan struct{})}
	}
	return st
}

// join waits until the node has connected back, and returns nil if it will not. Each call is
// followed by leave.
func (st *step) join(ctx context.Context, node string) (*member, error) {
	st.mu.Lock()
	m := st.nodes[node]
	if st.over {
		m = nil
	}
	st.users++
	st.mu.Unlock()
	if m == nil {
		return nil, nil
	}
	st.begin.Do(st.start)
	select {
	case <-m.known:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if m.client == nil {
		return nil, nil
	}
	return m, nil
}

// leave ends the step with its last user.
func (st *step) leave() {
	st.mu.Lock()
	st.users--
	last := st.users == 0 && !st.over
	st.over = st.over || last
	st.mu.Unlock()
	if last {
		st.begin.Do(func() { close(st.ended) }) // prevents a later start
		st.close()
	}
}

// start runs srun and returns before the nodes have connected.
func (st *step) start() {
	ctx, cancel := context.WithCancel(context.Background())
	st.cancel = cancel
	overlap, err := st.steps.overlap()
	switch {
	case err != nil:
	case overlap == "":
		err = errors.New("this srun cannot share a job's resources among steps")
	case overlap != externalLauncher && len(st.steps.gpus()) > 0:
		err = errors.New("this srun requests GPUs of each node alone")
	default:
		st.listener, err = callback.Listen(st.Nodes, st.arrived, st.Trace)
	}
	if err != nil {
		close(st.ended)
		st.missing(nil, err.Error())
		return
	}
	st.late = time.AfterFunc(st.Within, func() { st.unreached(nil, fmt.Sprintf("no connection within %v", st.Within)) })
	go st.run(ctx, overlap)
}

func (st *step) run(ctx context.Context, overlap string) {
	defer close(st.ended)
	said := &reports{missing: st.exited}
	cmd := exec.CommandContext(ctx, st.steps.srun, st.args(overlap)...)
	cmd.Env = st.steps.env
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = CancelTimeout
	cmd.Cancel = func() error {
		time.AfterFunc(CancelTimeout, func() { _ = cmd.Process.Kill() })
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	var ticket strings.Builder
	_, err := st.listener.Ticket().WriteTo(&ticket)
	if err == nil {
		cmd.Stdin = strings.NewReader(ticket.String())
		err = cmd.Run()
	}
	said.flush()
	reason := "srun has ended"
	if err != nil {
		reason = fmt.Sprintf("srun: %v", err)
	}
	st.missing(nil, reason+said.last())
	st.listener.Close()
}

// args returns srun's arguments. A node that fails, or whose process ends, does not end those of
// others. Labels tell the lines of nodes from those of srun itself.
func (st *step) args(overlap string) []string {
	count := strconv.Itoa(len(st.Nodes))
	args := []string{"--job-name=gorun", "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--nodelist=" +
		strings.Join(st.Nodes, ","),
		"--mpi=none", "--cpu-bind=none", "--mem-bind=none", "--export=ALL", "--kill-on-bad-exit=0", "--no-kill",
		"--wait=0",
		"--label", "--unbuffered", "--input=all", "--chdir=/", overlap}
	return append(args, st.Argv()...)
}

// arrived takes the connection of a node.
func (st *step) arrived(a callback.Arrival) {
	client, err := resident.NewClient(a)
	if err != nil {
		a.Close()
		st.missing([]string{a.Hello.Host}, err.Error())
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	m := st.nodes[a.Hello.Host]
	select {
	case <-m.known: // the node has a step of its own by now
		go client.Close()
		return
	default:
	}
	if st.over {
		go client.Close()
		return
	}
	m.client = client
	m.build = a.Hello.Build
	close(m.known)
	st.Trace("%s: connected back from the step of all nodes", a.Hello.Host)
	if m.build != st.Build {
		st.Trace("%s: a step of its own: another gorun is at that path there", a.Hello.Host)
	}
}

// missing records that nodes (nil: all) will not connect, except those that have. It returns the
// nodes that will not.
func (st *step) missing(nodes []string, why string) (lost []string) {
	if nodes == nil {
		nodes = slices.Sorted(maps.Keys(st.nodes))
	}
	st.mu.Lock()
	for _, node := range nodes {
		if m := st.nodes[node]; m != nil {
			select {
			case <-m.known:
			default:
				close(m.known)
				lost = append(lost, node)
			}
		}
	}
	over := st.over
	st.mu.Unlock()
	if over {
		return nil
	}
	if len(lost) > 0 {
		st.Trace("%s: a step of its own, since the step of all nodes failed there: %s", prose.List(lost),
			prose.Printable(why))
	}
	return lost
}

// exited records that the processes of nodes have ended.
func (st *step) exited(nodes []string, text string) {
	if strings.HasPrefix(text, unreachedText) {
		st.unreached(nodes, text)
		return
	}
	st.missing(nodes, text)
}

// unreachedText begins what srun says of a process that could not connect.
const unreachedText = "Exited with exit code 75"

// CodeUnreached is the exit code of a node's process that could not connect to the launcher.
const CodeUnreached = 75

// unreached calls missing for nodes (nil: all) whose processes run but do not connect.
func (st *step) unreached(nodes []string, why string) {
	if lost := st.missing(nodes, why); len(lost) > 0 {
		st.Note("%s did not connect back to gorun, so each got a Slurm step of its own: %s; see \"Firewalls\" in "+
			"docs/slurm.md", prose.List(lost), prose.Printable(why))
	}
}

// close ends the processes of the nodes, and srun.
func (st *step) close() {
	if st.cancel == nil {
		return
	}
	if st.late != nil {
		st.late.Stop()
	}
	for _, m := range st.nodes {
		select {
		case <-m.known:
			if m.client != nil {
				m.client.Close()
			}
		default:
		}
	}
	st.missing(nil, "")
	if st.listener != nil {
		st.listener.Close() // late nodes end by themselves
	}
	select {
	case <-st.ended:
	case <-time.After(CancelTimeout):
	}
	st.cancel()
	<-st.ended
}

// reports reads from srun's stderr which nodes' processes have ended.
type reports struct {
	missing func(nodes []string, text string)

	mu   sync.Mutex
	line []byte
	text string // last line with a reason
}

// ended reads srun's report of failed tasks, as in "srun: error: n[1-2]: tasks 0-1: Exited with
// exit code 127". A node can print millions of lines, but none that begins so: they are labelled.
func ended(line string) (nodes, text string, is bool) {
	line, is = strings.CutPrefix(line, "srun: error: ")
	nodes, line, _ = strings.Cut(line, ": ")
	tasks, text, whole := strings.Cut(line, ": ")
	return nodes, text, is && whole && strings.HasPrefix(tasks, "task") && !strings.ContainsAny(nodes, " :")
}

func (r *reports) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line = append(r.line, p...)
	for {
		line, rest, whole := bytes.Cut(r.line, []byte("\n"))
		if !whole {
			break
		}
		r.line = rest
		r.read(string(line))
	}
	r.line = r.line[:min(len(r.line), firstWordsSize)]
	return len(p), nil
}

// unlabelled returns a line of a task without its number.
func unlabelled(line string) string {
	if label, text, found := strings.Cut(line, ": "); found && strings.Trim(label, " 0123456789") == "" {
		return text
	}
	return line
}

func (r *reports) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read(string(r.line))
	r.line = nil
}

func (r *reports) read(line string) {
	from, text, is := ended(line)
	if !is {
		if line = unlabelled(line); strings.TrimSpace(line) != "" && line+"\n" != noBinding {
			r.text = line[:min(len(line), firstWordsSize)]
		}
		return
	}
	if r.text != "" {
		text += ": " + r.text
	}
	if nodes, err := hostfile.Hostlist("srun", from); err == nil {
		r.missing(nodes, text)
	}
}

// last returns the text after the colon in the last line with a reason, or "".
func (r *reports) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == "" {
		return ""
	}
	return ": " + r.text
}

// nodeName is the variable by which a node's process knows its name in Slurm.
const nodeName = "SLURMD_NODENAME"

// Reside is a node's process in a step of all nodes: it reads the ticket from in, connects back,
// and starts agents until the launcher has gone. argv is the command of an agent, as of
// [resident.Serve].
func Reside(ctx context.Context, in io.Reader, build string, lookup func(string) (string, bool), argv []string) error {
	ticket, err := callback.ReadTicket(bufio.NewReader(in))
	if err != nil {
		return err
	}
	node, _ := lookup(nodeName)
	first, _ := lookup("SLURM_LAUNCH_NODE_IPADDR")
	dialing, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := callback.Dial(dialing, ticket, first, callback.Hello{Host: node, Build: build})
	if err != nil {
		return &unreachedError{err}
	}
	return resident.ServeConn(ctx, conn, argv)
}

// unreachedError reports that a node's process did not connect.
type unreachedError struct{ error }

// ExitCode returns CodeUnreached.
func (e *unreachedError) ExitCode() int { return CodeUnreached }

// connectTime bounds a node's attempts to connect.
const connectTime = time.Minute
