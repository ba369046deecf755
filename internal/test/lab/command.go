package lab

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Command is exec.CommandContext for a program on the launcher's side: on f0
// with namespaces, right here on loopback. The process started is the program
// itself, so its signals and its death are the program's. It starts in the
// current directory whatever Dir says, and with the cluster's home as HOME.
func (c *Cluster) Command(ctx context.Context, argv ...string) *exec.Cmd {
	if c.launch == nil {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	return c.enter(ctx, c.launch, argv)
}

// On runs a program on a host without ssh, to inspect or harm it. With namespaces a helper process
// is its parent, which the program does not outlive.
func (c *Cluster) On(ctx context.Context, host string, argv ...string) *exec.Cmd {
	if c.launch == nil {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	return c.enter(ctx, c.Host(host), argv)
}

func (c *Cluster) enter(ctx context.Context, h *Host, argv []string) *exec.Cmd {
	target := h.holder
	namespaces := []string{"--mount", "--net", "--uts", "--ipc"}
	env := []string{"env"}
	rights := []string{"setpriv", "--reuid", strconv.Itoa(c.user.uid), "--regid", strconv.Itoa(c.user.gid),
		"--clear-groups"}
	if h == c.launch {
		if dir, err := os.Getwd(); err == nil {
			env = append(env, "--chdir="+dir) // new mounts put us in /
		}
	} else {
		target = firstChild(h.holder) // unshare itself stays among the machine's processes
		namespaces = append(namespaces, "--pid")
		rights = append(rights, "--pdeathsig", "KILL")
	}
	env = append(env, "HOME="+c.homeMount(), "USER="+c.user.name, "LOGNAME="+c.user.name)
	args := append([]string{"--target", strconv.Itoa(target)}, namespaces...)
	args = slices.Concat(args, env, rights, argv)
	return exec.CommandContext(ctx, "nsenter", args...)
}

// Children returns the processes whose parent is pid.
func Children(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && Parent(child) == pid {
			found = append(found, child)
		}
	}
	return found
}

// Parent returns a process's parent, or 0 if it has ended.
func Parent(pid int) int {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	// The name is in parentheses and may contain any character, parentheses included.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// firstChild returns the host's init, child of the unshare that made the host.
func firstChild(pid int) int {
	if all := Children(pid); len(all) > 0 {
		return all[0]
	}
	return pid
}

// sshdUnder finds a host's sshd among the children of its init.
func sshdUnder(holder int) int {
	for _, pid := range Children(firstChild(holder)) {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if strings.TrimSpace(string(name)) == "sshd" {
			return pid
		}
	}
	return 0
}
