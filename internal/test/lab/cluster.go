package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Spec says how a host differs from the default. The zero value is the default.
type Spec struct {
	Name    string   // default: f1, f2, … by position
	Options []string // sshd_config lines put before the lab's own, so that they win: "MaxSessions 1"
	Env     []string // NAME=value set by sshd for every session
	NoSFTP  bool     // offer no sftp subsystem
	Keys    []string // host key types: ed25519, ecdsa, rsa. Default: ed25519 alone

	// The rest is for Namespaces only.
	Shell string            // login shell, default /bin/sh
	Home  string            // hosts with the same Home share one home directory. Default: one for each host
	Files map[string]string // files to put into the home, by relative path
	Boot  string            // boot_id, for programs that tell machines apart by it. Default: this machine's
	PAM   string            // file of sshd's service, which "UsePAM yes" obeys. Default: this machine's
	// Mounts are folders of this machine that the host shows at other paths, which are below /run.
	Mounts map[string]string
}

// Specs returns n ordinary hosts.
func Specs(n int) []Spec { return make([]Spec, n) }

// Host is one running host.
type Host struct {
	Name string
	Addr string // IP address
	Port int
	PID  int      // of its sshd, as seen by this process
	Home string   // namespaces: the path of this host's home directory on this machine
	Log  string   // file with sshd's log
	Keys []string // public host keys, as known_hosts holds them: "type base64"

	dir    string
	holder int // namespaces: a process inside them
}

// Cluster is a set of running hosts. Its methods may be called concurrently,
// but none after Close.
type Cluster struct {
	Dir        string // private to the cluster, removed by Close
	ConfigFile string // for ssh -F, gorun -F
	KnownHosts string // the known_hosts file that ConfigFile names
	Identity   string // private key that every host accepts
	Hosts      []Host

	guard   *guardian
	running []*exec.Cmd
	mark    string // NAME=value in the environment of all that runs on the hosts
	user    account
	launch  *Host // namespaces: the launcher's host f0, nil on loopback
}

// MissingError reports that this machine lacks something that a lab needs.
type MissingError struct {
	What string // "sshd"
	Hint string // what to do about it
}

func (e *MissingError) Error() string { return e.What + " is missing: " + e.Hint }

// newCluster makes the directory and the guardian. The caller must Close a cluster that it does not
// return.
func newCluster(ctx context.Context, specs []Spec) (*Cluster, error) {
	if len(specs) == 0 {
		return nil, errors.New("a lab needs at least one host")
	}
	dir, err := os.MkdirTemp("", "gorun-lab-")
	if err != nil {
		return nil, err
	}
	mark := "GORUN_LAB=" + filepath.Base(dir)
	guard, err := newGuardian(dir, mark)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Cluster{
		Dir:        dir,
		ConfigFile: filepath.Join(dir, "ssh_config"),
		KnownHosts: filepath.Join(dir, "known_hosts"),
		Identity:   filepath.Join(dir, "id_ed25519"),
		guard:      guard,
		mark:       mark,
	}
	return c, ctx.Err()
}

// hostName is the name of the i-th host, counted from 0.
func (s Spec) hostName(i int) string {
	if s.Name != "" {
		return s.Name
	}
	return "f" + strconv.Itoa(i+1)
}

// Host returns the host of that name. An unknown name is a mistake in the test and panics.
func (c *Cluster) Host(name string) *Host {
	if c.launch != nil && c.launch.Name == name {
		return c.launch
	}
	for i := range c.Hosts {
		if c.Hosts[i].Name == name {
			return &c.Hosts[i]
		}
	}
	panic(fmt.Sprintf("lab: no host %q", name))
}

// Close ends every process of the cluster, including the sessions of its sshds, waits for them, and
// removes its directory.
func (c *Cluster) Close() error {
	err := c.guard.release()
	for _, cmd := range c.running {
		cmd.Wait() // killed by the guardian, so its status says nothing
	}
	return err
}

// run starts a long-lived process of the cluster, which the guardian ends.
func (c *Cluster) run(cmd *exec.Cmd) error {
	cmd.Env = append(os.Environ(), c.mark)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.running = append(c.running, cmd)
	return c.guard.watch("pid", strconv.Itoa(cmd.Process.Pid))
}
