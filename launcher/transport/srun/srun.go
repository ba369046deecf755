// Package srun reaches the nodes of a Slurm job by job steps.
package srun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/ssh"
)

const (
	// sruns is how many steps may start at the same time.
	sruns = 32
	// CancelTimeout is how long srun may take to end its step.
	CancelTimeout = 5 * time.Second
)

// Steps is the transport to the nodes of a Slurm job. Each command is a step with one task and its
// own srun, since srun passes only a single task's streams unchanged. Agents of several nodes share
// one step, if StartTogether says so: its processes connect back.
type Steps struct {
	Job     Job
	srun    string // path
	env     []string
	overlap func() (string, error)   // option that lets a step share the job's resources
	gpus    func() map[string]string // the job's GPUs by node
	slots   chan struct{}
	all     *step // step of all nodes; nil: each command is a step of its own
}

// StartTogether makes the nodes that t names share one step for their agents, if the job allows
// that.
func (s *Steps) StartTogether(t Together) { s.all = newStep(s, t) }

func New(job Job, srun string, environ []string) *Steps {
	s := &Steps{
		Job:   job,
		srun:  srun,
		env:   srunEnv(environ, homeDir),
		slots: make(chan struct{}, sruns),
	}
	s.overlap = sync.OnceValues(s.askOverlap)
	s.gpus = sync.OnceValue(s.askGPUs)
	return s
}

// askOverlap queries the options of srun.
func (s *Steps) askOverlap() (string, error) {
	cmd := exec.Command(s.srun, "--help")
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	help, err := cmd.Output()
	if err != nil {
		return "", usage.Errorf("reach the hosts with --launcher ssh", "query the options of %s: %w: %s", s.srun, err,
			strings.TrimSpace(stderr.String()))
	}
	return overlapOption(string(help)), nil
}

const externalLauncher = "--external-launcher"

// overlapOption chooses an option from srun's help: --external-launcher (Slurm 23.11) gives a step
// all resources of the job on its node, --overlap (20.11) shares them.
func overlapOption(help string) string {
	for _, option := range []string{externalLauncher, "--overlap"} {
		if strings.Contains(help, option) {
			return option
		}
	}
	return ""
}

// Dial returns the node named by h. It starts nothing there except the step of all nodes.
func (s *Steps) Dial(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
	if !s.Job.Has(h.Name) {
		return nil, usage.Errorf("name nodes of the job with -H, or use --launcher ssh", "not a node of Slurm job %s",
			s.Job.ID)
	}
	overlap, err := s.overlap()
	if err != nil {
		return nil, err
	}
	node := &srunHost{steps: s, node: h.Name, overlap: overlap}
	if overlap != externalLauncher {
		node.gpus = s.gpus()[h.Name]
	}
	if s.all == nil {
		return node, nil
	}
	if node.member, err = s.all.join(ctx, h.Name); err != nil {
		s.all.leave()
		return nil, err
	}
	return node, nil
}

// srunHost is a node of the job.
type srunHost struct {
	steps   *Steps
	node    string
	overlap string
	gpus    string // GPUs to request, or ""
	// member is the node's part of the step of all nodes, or nil.
	member *member
	closed sync.Once
}

// AgentBuild returns the build of the agents that the step of all nodes starts, or "" if the node
// has no part in it.
func (h *srunHost) AgentBuild() string {
	if h.member == nil {
		return ""
	}
	if !h.member.client.Alive() {
		h.steps.all.Trace("%s: a step of its own: it was lost by the step of all nodes", h.node)
		return ""
	}
	return h.member.build
}

// RunAgent runs an agent's guard below the node's process of the step of all nodes.
func (h *srunHost) RunAgent(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error {
	return h.member.client.Run(ctx, nonce, stdin, stdout, stderr)
}

// args returns srun's arguments for a command on the node. A relative program path starts at the
// home directory. Options that a site or job script may have set are given explicitly.
func (h *srunHost) args(argv []string) []string {
	if !strings.HasPrefix(argv[0], "/") {
		argv = append([]string{"/bin/sh", "-c", `exec "$HOME/$0" "$@"`}, argv...)
	}
	args := []string{"--job-name=gorun", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--nodelist=" + h.node,
		"--mpi=none", "--cpu-bind=none", "--mem-bind=none", "--export=ALL", "--kill-on-bad-exit=1",
		"--unbuffered", "--input=all", "--chdir=/"}
	if h.overlap != "" {
		args = append(args, h.overlap)
	}
	if h.gpus != "" {
		args = append(args, "--gpus="+h.gpus)
	}
	if group, ok := h.steps.Job.Group(h.node); ok {
		args = append(args, "--het-group="+strconv.Itoa(group))
	}
	return append(args, argv...)
}

// Run runs argv as a step of the job, which ends with ctx.
func (h *srunHost) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	select {
	case h.steps.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	started := sync.OnceFunc(func() { <-h.steps.slots })
	defer started()
	cmd := exec.CommandContext(ctx, h.steps.srun, h.args(argv)...)
	cmd.Env = h.steps.env
	said := &firstWords{to: stderr}
	cmd.Stdout = &starting{to: stdout, started: started}
	cmd.Stderr = said
	// A new session keeps the terminal's Ctrl-C away from srun, which would interpret it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		time.AfterFunc(CancelTimeout, func() { _ = cmd.Process.Kill() })
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	// With cmd.Stdin, Wait would wait for the end of stdin.
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start srun: %w", err)
	}
	go func() {
		if stdin != nil {
			_, _ = io.Copy(input, stdin) // ends when the caller closes stdin, or srun's end does
		}
		input.Close()
	}()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && stepRefused(said.text.String()) {
		return &StepError{job: h.steps.Job.ID}
	}
	return err
}

// Put uploads a file by commands of a shell, as [ssh.Client.Put] does. A relative path is below the
// home directory.
func (h *srunHost) Put(ctx context.Context, name string, mode fs.FileMode, r io.Reader) error {
	atHome := func(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
		return h.Run(ctx, append([]string{"/bin/sh", "-c", `cd && exec "$0" "$@"`}, argv...), stdin, stdout, stderr)
	}
	return ssh.PutByShell(ctx, atHome, name, mode, r)
}

// Close ends the step of all nodes with the last of them. Other steps end with their commands.
func (h *srunHost) Close() error {
	if h.steps.all != nil {
		h.closed.Do(h.steps.all.leave)
	}
	return nil
}

// StepError reports that Slurm did not start a step, as opposed to a failure of the command. srun's
// stderr has the reason.
type StepError struct{ job string }

func (e *StepError) Error() string {
	return fmt.Sprintf("Slurm refused to start a step of job %s there", e.job)
}

// Hint returns the commands to find the reason.
func (e *StepError) Hint() string {
	return "see squeue -j " + e.job + " and sinfo, or use --launcher ssh"
}

// stepRefused reports whether srun's output says that no step was started.
func stepRefused(said string) bool {
	signs := []string{"srun: fatal: ", "srun: error: Unable to ", "srun: error: Slurm job ",
		"srun: error: Task launch for ",
		"srun: error: Application launch failed", "srun: error: Invalid "}
	for line := range strings.Lines(said) {
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.HasPrefix(line, sign) }) {
			return true
		}
	}
	return false
}

// starting calls started whenever output comes, and passes the output on.
type starting struct {
	to      io.Writer
	started func()
}

func (s *starting) Write(p []byte) (int, error) {
	s.started()
	return s.to.Write(p)
}

// firstWords passes srun's stderr on without meaningless lines and keeps the first firstWordsSize
// bytes.
type firstWords struct {
	to   io.Writer
	text bytes.Buffer
}

const firstWordsSize = 4 << 10

// noBinding is srun's warning about --cpu-bind=none on clusters without binding.
const noBinding = "srun: cluster configuration lacks support for cpu binding\n"

func (f *firstWords) Write(p []byte) (int, error) {
	words := bytes.ReplaceAll(p, []byte(noBinding), nil)
	f.text.Write(words[:min(len(words), max(0, firstWordsSize-f.text.Len()))])
	if _, err := f.to.Write(words); err != nil {
		return 0, err
	}
	return len(p), nil
}

// errNoSrun is the cause of a --launcher srun outside a Slurm job.
var errNoSrun = errors.New("--launcher srun, but not in a Slurm job: SLURM_JOB_ID is not set")
