package cluster

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Options are what a cluster is made of.
type Options struct {
	Nodes  int
	Parts  string   // folder that .ci/kube has made: components, programs of nodes, the base of images
	Images []string // archives that every node imports, as docker save writes them
	Log    io.Writer
}

// Cluster is a running cluster. Its methods may be called concurrently, but none after Close.
type Cluster struct {
	Dir        string // private to the cluster, removed by Close
	Kubeconfig string // of an administrator

	parts    string
	init     *exec.Cmd
	life     io.Closer // the init process ends at the end of this pipe
	guardian *guardian
}

// InitCommand and NodeCommand are the first arguments of this program's processes in a cluster: a
// program that starts clusters hands them to [Main].
const (
	InitCommand = "__init"
	NodeCommand = "__node"
)

// Start starts a cluster and returns when all nodes are ready. The caller must Close it. The
// program must have called [Main].
func Start(ctx context.Context, o Options) (c *Cluster, err error) {
	dir, err := os.MkdirTemp("", "gorun-kube-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // pods of other users reach their volumes through it
		return nil, errors.Join(err, os.Remove(dir))
	}
	c = &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), parts: o.Parts}
	if c.guardian, err = newGuardian(dir); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
			c = nil
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	argv := append([]string{InitCommand, dir, o.Parts, strconv.Itoa(o.Nodes)}, o.Images...)
	c.init = exec.Command(self, argv...)
	c.init.Stderr = o.Log
	c.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	if c.life, err = c.init.StdinPipe(); err != nil {
		return c, err
	}
	said, err := c.init.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := c.init.Start(); err != nil {
		return c, fmt.Errorf("start the cluster's init: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "init"), []byte(strconv.Itoa(c.init.Process.Pid)), 0o600); err != nil {
		return c, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.life.Close() })
	defer stop()
	line, _ := bufio.NewReader(said).ReadString('\n')
	if strings.TrimSpace(line) != ready {
		return c, errors.Join(fmt.Errorf("the cluster did not start: %s", strings.TrimSpace(line)), ctx.Err())
	}
	return c, nil
}

// Close ends all processes of the cluster, and waits until its files and cgroups are gone.
func (c *Cluster) Close() error {
	if c.init != nil && c.init.Process != nil {
		_ = c.life.Close()
		_ = c.init.Wait() // it ends as everything in it does
	}
	return c.guardian.release()
}

// Command returns a command that runs in the network, mounts and processes of the control plane,
// with kubectl in its PATH and KUBECONFIG set.
func (c *Cluster) Command(ctx context.Context, argv ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(c.init.Process.Pid), "--mount", "--net", "--uts", "--ipc", "--pid",
		"--wd=.", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "PATH="+c.parts+"/bin:"+os.Getenv("PATH"))
	return cmd
}

// Kubectl runs kubectl and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	argv := append([]string{filepath.Join(c.parts, "bin/kubectl")}, args...)
	out, err := c.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Node returns the process id of a node's init as commands of [Cluster.Command] see it. Nodes count
// from 1. To kill it is to lose the node.
func (c *Cluster) Node(number int) (pid int, err error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, nodeName(number), "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

//go:embed guardian.sh
var guardianScript string

// guardian is a shell that removes what the cluster leaves, at the end of a pipe that only this
// process holds open. SIGKILL closes the pipe too.
type guardian struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func newGuardian(dir string) (*guardian, error) {
	g := &guardian{cmd: exec.Command("/bin/sh", "-c", guardianScript, "gorun-kube-guardian", dir)}
	g.cmd.Dir = "/"
	g.cmd.Stderr = os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster's guardian: %w", err)
	}
	return g, nil
}

func (g *guardian) release() error {
	_ = g.pipe.Close()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("remove what the cluster left: %w", err)
	}
	return nil
}
