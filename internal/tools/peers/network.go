package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// network is network namespaces, each a host. They have no names: they end with their processes,
// also when this process is killed.
type network struct {
	hosts  []*namespace
	config string // ssh_config file that leads gorun to them, as f1, f2, …
	use    string // interfaces of ranks
}

// namespace is one of the hosts.
type namespace struct {
	addr   string
	pid    int // of the process that keeps it
	holder *exec.Cmd
	stdin  io.Closer // the holder ends with it
}

// newNetwork makes so many hosts and joins them. It needs root, util-linux, iproute2 and OpenSSH.
func newNetwork(ctx context.Context, dir string, hosts int, join func(context.Context, *network) error) (*network,
	error) {
	n := &network{config: filepath.Join(dir, "ssh_config"), use: "eth0"}
	err := n.start(hosts)
	if err == nil {
		err = join(ctx, n)
	}
	if err == nil {
		err = n.openSSH(ctx, dir)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *network) start(hosts int) error {
	if os.Getuid() != 0 {
		return errors.New("they need root")
	}
	for i := range hosts {
		h, err := newNamespace(fmt.Sprintf("10.78.0.%d", i+1))
		if err != nil {
			return err
		}
		n.hosts = append(n.hosts, h)
	}
	return nil
}

// pairs joins two hosts by a veth pair for each rate, which tc limits to that unless it is empty.
func pairs(rates ...string) func(context.Context, *network) error {
	return func(ctx context.Context, n *network) (err error) {
		for i, rate := range rates {
			err = errors.Join(err, n.join(ctx, i, rate))
		}
		return err
	}
}

// join makes a veth pair.
func (n *network) join(ctx context.Context, number int, rate string) error {
	name := fmt.Sprintf("eth%d", number)
	for i, h := range n.hosts {
		script := fmt.Sprintf("ip addr add 10.78.%d.%d/24 dev %s && ip link set %[3]s up", number, i+1, name)
		if i == 0 {
			script = fmt.Sprintf("ip link add %s type veth peer name %[1]s netns %d && ", name, n.hosts[1].pid) + script
		}
		if rate != "" {
			script += fmt.Sprintf(" && tc qdisc add dev %s root tbf rate %s burst 256kb latency 20ms", name, rate)
		}
		if err := inside(ctx, h.pid, "sh", "-c", script); err != nil {
			return err
		}
	}
	for _, h := range n.hosts { // a link is up a moment after its other end
		if err := inside(ctx, h.pid, "sh", "-c", "until ip link show "+name+
			" | grep -q 'state UP'; do sleep 0.01; done"); err != nil {
			return err
		}
	}
	return nil
}

func newNamespace(addr string) (*namespace, error) {
	h := &namespace{addr: addr, holder: exec.Command("unshare", "--net", "sh", "-c",
		"ip link set lo up && echo . && exec cat >/dev/null")}
	var err error
	if h.stdin, err = h.holder.StdinPipe(); err != nil {
		return nil, err
	}
	var stderr strings.Builder
	h.holder.Stderr = &stderr
	ready, err := h.holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.holder.Start(); err != nil {
		return nil, err
	}
	h.pid = h.holder.Process.Pid
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("unshare: %w: %s", errors.Join(h.stdin.Close(), h.holder.Wait()), &stderr)
	}
	return h, nil
}

// inside runs a program in the network of pid.
func inside(ctx context.Context, pid int, argv ...string) error {
	argv = append([]string{"-t", strconv.Itoa(pid), "-n", "--"}, argv...)
	if out, err := exec.CommandContext(ctx, "nsenter", argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("nsenter %q: %w: %s", argv, err, out)
	}
	return nil
}

// openSSH writes gorun's configuration for the namespaces. No server listens: each connection gets
// an sshd on a pipe.
func (n *network) openSSH(ctx context.Context, dir string) error {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	key := filepath.Join(dir, "key")
	authorized := filepath.Join(dir, "authorized_keys")
	known := filepath.Join(dir, "known_hosts")
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	server := filepath.Join(dir, "sshd_config")
	client := fmt.Sprintf("Host *\n  User root\n  IdentityFile %s\n  IdentitiesOnly yes\n  IdentityAgent none\n  "+
		"UserKnownHostsFile %s\n"+
		"  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n", key, known)
	names := make([]string, len(n.hosts))
	for i, h := range n.hosts {
		names[i] = fmt.Sprintf("f%d", i+1)
		client += fmt.Sprintf("Host f%d\n  ProxyCommand nsenter -t %d -n -- %s -i -f %s -E %s\n", i+1, h.pid, sshd,
			server, filepath.Join(dir, "sshd.log"))
	}
	return errors.Join(
		os.MkdirAll("/run/sshd", 0o755), // which the system's service makes, where it runs
		os.WriteFile(authorized, public, 0o600),
		os.WriteFile(known, []byte(strings.Join(names, ",")+" "+string(public)), 0o600),
		os.WriteFile(server, []byte("HostKey "+key+"\nAuthorizedKeysFile "+authorized+
			"\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nUseDNS no\n"), 0o600),
		os.WriteFile(n.config, []byte(client), 0o600),
	)
}

// flags returns the options that lead gorun to the hosts, with so many ranks in all, and ranks to
// the interfaces between them.
func (n *network) flags(ranks int) []string {
	names := make([]string, len(n.hosts))
	for i := range names {
		names[i] = fmt.Sprintf("f%d:%d", i+1, ranks/len(names))
	}
	return []string{"-F", n.config, "-H", strings.Join(names, ","), "--network-interface", n.use}
}

// close ends the namespaces.
func (n *network) close() error {
	var errs []error
	for _, h := range n.hosts {
		errs = append(errs, h.stdin.Close(), h.holder.Wait())
	}
	return errors.Join(errs...)
}
