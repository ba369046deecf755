// Package warm keeps an interpreter of Python that has imported modules, and has it fork processes
// that run as if they had been started.
//
// A process can wait only for its own children, so the interpreter comes along: it forks a guard,
// which leaves a copy of the interpreter below itself; that copy becomes the agent, which again has
// a copy below; and that forks the ranks. A forked process is left to the subreaper above the
// interpreter, which is the process that asked for it.
//
// Each interpreter obeys one socket, which has no name. It ends with the other end of the socket.
package warm

import (
	"archive/zip"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/topology"
)

//go:embed *.py
var sources embed.FS

// importTime bounds the imports of all modules.
const importTime = 10 * time.Minute

// Options are how the interpreter of ranks is started.
type Options struct {
	Path    string       // path of the interpreter
	Env     []string     // NAME=value, the environment of the imports
	CPUs    topology.Set // CPUs that ranks have
	Modules []string     // modules to import
}

// Interpreter is one that this process has started.
type Interpreter struct {
	channel channel
	cmd     *exec.Cmd
	program *os.File // executable of this process

	mu     sync.Mutex
	guards map[int]bool // processes that callers of StartGuard wait for
}

// Start starts an interpreter and has it import the modules. printed is what they print. The caller
// must be a subreaper, and closes the interpreter. A [*Refusal] says why the modules cannot be
// kept.
func Start(ctx context.Context, opts Options) (i *Interpreter, printed string, err error) {
	// Before it starts: a module of others may run before the first of ours. imports.py asks what
	// else a rank would import otherwise.
	for n, kv := range trust.Environ(opts.Env) {
		if name, _, _ := strings.Cut(kv, "="); kv != opts.Env[n] {
			return nil, "", &Refusal{fmt.Sprintf("a path in %s is relative", name)}
		}
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, "", err
	}
	defer theirs.Close()
	i = &Interpreter{guards: map[int]bool{}}
	if i.channel, err = newChannel(ours); err != nil {
		return nil, "", err
	}
	archive, err := pack()
	if err != nil {
		i.channel.conn.Close()
		return nil, "", err
	}
	defer archive.Close()
	i.cmd = &exec.Cmd{
		Path:        opts.Path,
		Args:        []string{opts.Path, "/proc/self/fd/4"},
		Env:         opts.Env,
		Dir:         trust.StartDir(),
		ExtraFiles:  []*os.File{theirs, archive},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err = i.cmd.Start(); err != nil {
		i.channel.conn.Close()
		return nil, "", fmt.Errorf("start %s: %w", opts.Path, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = i.channel.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	theirs.Close()
	words := []string{numbers(opts.CPUs), strings.Join(opts.Modules, " ")}
	if printed, err = i.channel.ask(importTime, words, nil); err == nil {
		i.program, err = os.Open("/proc/self/exe")
	}
	if err != nil {
		i.Close()
		var why *Refusal
		if !errors.As(err, &why) {
			err = fmt.Errorf("import %s with %s: %w", strings.Join(opts.Modules, ", "), opts.Path, err)
		}
		return nil, "", err
	}
	return i, printed, nil
}

// pack returns the interpreter's program as a file in memory.
func pack() (*os.File, error) {
	var text bytes.Buffer
	archive := zip.NewWriter(&text)
	main, err := archive.CreateHeader(&zip.FileHeader{Name: "__main__.py"})
	if err == nil {
		_, err = main.Write([]byte("import warm\nwarm.serve()\n"))
	}
	err = errors.Join(err, archive.AddFS(sources), archive.Close())
	if err != nil {
		return nil, fmt.Errorf("pack the program of the interpreter: %w", err)
	}
	fd, err := unix.MemfdCreate("warm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "warm")
	if _, err := file.Write(text.Bytes()); err != nil {
		file.Close()
		return nil, fmt.Errorf("write the program of the interpreter: %w", err)
	}
	return file, nil
}

// PID returns the interpreter's process.
func (i *Interpreter) PID() int { return i.cmd.Process.Pid }

// Close ends the interpreter. What it has forked goes on.
func (i *Interpreter) Close() {
	i.channel.conn.Close()
	if i.program != nil {
		i.program.Close()
	}
	_ = i.cmd.Process.Kill() // imports may go on
	_ = i.cmd.Wait()
}

// StartGuard starts a guard with a command of this process's own executable, to which the name of a
// [Below] is appended, and its standard files. It is this process's child, for which the caller
// waits. Orphans that earlier guards have left are reaped.
func (i *Interpreter) StartGuard(argv []string, files [3]*os.File) (*os.Process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	contain.ReapOrphans(func(pid int) bool { return i.guards[pid] || pid == i.cmd.Process.Pid })
	guards, agents, err := pair()
	if err != nil {
		return nil, err
	}
	defer guards.Close()
	defer agents.Close()
	words := slices.Concat([]string{"guard", strconv.Itoa(os.Getpid()), strconv.Itoa(len(argv))}, argv, os.Environ())
	answer, err := i.channel.ask(answerTime, words, descriptors(append(files[:], i.program, guards, agents)))
	if err != nil {
		return nil, fmt.Errorf("fork a guard: %w", err)
	}
	pid, err := strconv.Atoi(answer)
	if err != nil {
		return nil, err
	}
	i.guards[pid] = true
	return os.FindProcess(pid)
}

// Below is the copy of an interpreter below a process that another copy has become. It serves one
// request at a time.
type Below struct {
	channel channel
	PID     int
}

// Find returns the copy below this process by the name that this process was started with.
func Find(name string) (*Below, error) {
	descriptor, pid, _ := strings.Cut(name, ":")
	fd, err := strconv.Atoi(descriptor)
	b := &Below{}
	if err == nil {
		b.PID, err = strconv.Atoi(pid)
	}
	if err == nil {
		b.channel, err = newChannel(os.NewFile(uintptr(fd), name))
	}
	if err != nil {
		return nil, fmt.Errorf("find the warm interpreter %q: %w", name, err)
	}
	return b, nil
}

// Close ends the copy, unless it has become something else.
func (b *Below) Close() { b.channel.conn.Close() }

// BecomeAgent makes the copy, which is this process's child, an agent with this process's standard
// files, and the name of another copy appended to its command.
func (b *Below) BecomeAgent(argv []string) error {
	agents, warms, err := pair()
	if err != nil {
		return err
	}
	defer agents.Close()
	defer warms.Close()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	words := slices.Concat([]string{"agent", strconv.Itoa(len(argv))}, argv, os.Environ())
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, program, agents, warms}
	_, err = b.channel.ask(answerTime, words, descriptors(files))
	return err
}

// Rank is what a rank is to be.
type Rank struct {
	Path            string
	Argv, Env       []string
	Dir             string
	CPUs            topology.Set
	Files           []uintptr // its descriptors from 0 on
	Terminal        bool      // file 0 becomes its controlling terminal
	Score           string    // value of oom_score_adj
	NoNewPrivileges bool
}

// Fork forks a rank, which is this process's child, and in the control group of the copy. If it
// returns an error, no program runs; a [*Refusal] says in what the rank would differ from one that
// is started. After another error the copy serves no more requests.
func (b *Below) Fork(r Rank) (pid int, err error) {
	words := slices.Concat([]string{"rank", r.Path, r.Dir, numbers(r.CPUs), r.Score, flag(r.Terminal),
		flag(r.NoNewPrivileges), strconv.Itoa(os.Getpid()), strconv.Itoa(len(r.Argv))}, r.Argv, r.Env)
	answer, err := b.channel.ask(answerTime, words, r.Files)
	if err == nil {
		return strconv.Atoi(answer)
	}
	var why *Refusal
	if !errors.As(err, &why) {
		b.Close() // a rank that is late cannot answer, and ends
		err = fmt.Errorf("the warm interpreter does not answer: %w", err)
	}
	return 0, err
}

// numbers formats CPUs for the input of a copy.
func numbers(cpus topology.Set) string {
	var words []string
	for _, cpu := range cpus {
		words = append(words, strconv.Itoa(cpu))
	}
	return strings.Join(words, " ")
}

func descriptors(files []*os.File) (all []uintptr) {
	for _, file := range files {
		all = append(all, file.Fd())
	}
	return all
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}
