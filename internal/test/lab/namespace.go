package lab

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed host.sh
var hostScript string

// Namespaces starts one host for each spec, with a network, mounts, processes
// and a host name of its own, and sshd on port 22; and the launcher's host f0,
// which has its own network, mounts and host name. They meet on a bridge inside
// f0, so that nothing appears in the machine's own network. Everything runs as
// root. The hosts know each other by name.
//
// [Cluster.Command] runs a command on f0, [Cluster.On] on another host.
func Namespaces(ctx context.Context, specs ...Spec) (*Cluster, error) {
	return NamespacesAs(ctx, 0, specs...)
}

// NamespacesAs is [Namespaces] where Command, On and the sessions run as the
// user "rank" with that uid and gid; 0 means root.
func NamespacesAs(ctx context.Context, uid int, specs ...Spec) (*Cluster, error) {
	sshd, err := findSSHD()
	if err != nil {
		return nil, err
	}
	if err := canNamespace(); err != nil {
		return nil, err
	}
	c, err := newCluster(ctx, specs)
	if err != nil {
		return nil, closing(c, err)
	}
	c.user = account{"root", 0, 0}
	if uid != 0 {
		c.user = account{"rank", uid, uid}
	}
	if err := c.startNamespaces(ctx, sshd, specs); err != nil {
		return nil, closing(c, err)
	}
	return c, nil
}

func canNamespace() error {
	if os.Getuid() != 0 {
		return &MissingError{"root", "network namespaces need it"}
	}
	for _, program := range []string{"unshare", "nsenter", "setpriv", "mount", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return &MissingError{program, "install util-linux and iproute2"}
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc",
		"true").CombinedOutput(); err != nil {
		return &MissingError{"the right to make namespaces", strings.TrimSpace(string(out))}
	}
	return nil
}

func (c *Cluster) startNamespaces(ctx context.Context, sshd string, specs []Spec) error {
	if err := c.layOut(specs); err != nil {
		return err
	}
	if err := c.startHolder(ctx, c.launch, false, nil); err != nil {
		return err
	}
	if err := c.inNet(ctx, c.launch, "ip link add br0 type bridge && ip link set br0 up && ip addr add "+c.launch.Addr+
		"/16 dev br0"); err != nil {
		return err
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if err := c.startHolder(ctx, h, true, h.sshdArgs(sshd)); err != nil {
			return err
		}
		if err := c.plug(ctx, i); err != nil {
			return err
		}
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if _, err := h.awaitSSHD(ctx); err != nil {
			return err
		}
		h.PID = sshdUnder(h.holder)
	}
	return nil
}

// layOut chooses names and addresses and writes every file of the cluster.
func (c *Cluster) layOut(specs []Spec) error {
	if err := os.Chmod(c.Dir, 0o755); err != nil { // MkdirTemp's 0700 would shut rank out
		return err
	}
	c.launch = &Host{Name: "f0", Addr: address(0), dir: filepath.Join(c.Dir, "f0")}
	if err := os.Mkdir(c.launch.dir, 0o755); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n" + c.launch.Addr + " f0\n"
	for i, spec := range specs {
		h := Host{Name: spec.hostName(i), Addr: address(i + 1), Port: 22}
		if err := c.prepare(&h, spec, "0.0.0.0"); err != nil {
			return err
		}
		hosts += h.Addr + " " + h.Name + "\n"
		c.Hosts = append(c.Hosts, h)
	}
	if err := c.writeUserKey(); err != nil {
		return err
	}
	if err := c.writeClientFiles(); err != nil {
		return err
	}
	if err := os.Mkdir(c.homeMount(), 0o755); err != nil {
		return err
	}
	if err := c.furnish(c.launch, Spec{}, hosts); err != nil {
		return err
	}
	for i := range c.Hosts {
		if err := c.furnish(&c.Hosts[i], specs[i], hosts); err != nil {
			return err
		}
	}
	return os.Chown(c.Identity, c.user.uid, c.user.gid)
}

// address returns the i-th host's address; 0 is the launcher's.
func address(i int) string { return fmt.Sprintf("10.77.%d.%d", (10+i)/250, (10+i)%250) }

// homeMount returns the path of the home directory as every host sees it.
func (c *Cluster) homeMount() string { return filepath.Join(c.Dir, "home") }

// startHolder starts the process that keeps a host's namespaces, and on all but
// f0 sshd, and waits until the host is set up. See host.sh.
func (c *Cluster) startHolder(ctx context.Context, h *Host, ownProcesses bool, argv []string) error {
	args := []string{"--mount", "--net", "--uts", "--ipc"}
	if ownProcesses {
		args = append(args, "--pid", "--fork", "--kill-child", "--mount-proc")
	}
	args = append(args, "/bin/sh", "-c", hostScript, "gorun-lab-host", h.dir, h.Name, h.Home, c.homeMount())
	cmd := exec.Command("unshare", append(args, argv...)...)
	log, err := os.Create(filepath.Join(h.dir, "host.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.run(cmd); err != nil {
		return fmt.Errorf("starting host %s: %w", h.Name, err)
	}
	h.holder = cmd.Process.Pid
	stop := context.AfterFunc(ctx, func() { ready.Close() })
	defer stop()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("setting up host %s: %w: %s", h.Name, err, text)
	}
	return c.guardNet(h)
}

// guardNet makes the guardian end everything that runs in the host's network.
func (c *Cluster) guardNet(h *Host) error {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", h.holder))
	if err != nil {
		return err
	}
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "net:["), "]")
	return c.guard.watch("net", inode)
}

// plug joins the i-th host to the bridge.
func (c *Cluster) plug(ctx context.Context, i int) error {
	h := &c.Hosts[i]
	link := h.link(c)
	err := c.inNet(ctx, c.launch, fmt.Sprintf(
		"ip link add %s type veth peer name eth0 netns %d && ip link set %s master br0 up", link, h.holder, link))
	if err != nil {
		return err
	}
	return c.inNet(ctx, h, "ip addr add "+h.Addr+"/16 dev eth0 && ip link set eth0 up")
}

// link returns the name of the bridge's port to h.
func (h *Host) link(c *Cluster) string {
	for i := range c.Hosts {
		if c.Hosts[i].Name == h.Name {
			return "port" + strconv.Itoa(i+1)
		}
	}
	panic("lab: " + h.Name + " has no link")
}

// inNet runs a script as root in the host's network, with this machine's files.
func (c *Cluster) inNet(ctx context.Context, h *Host, script string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(h.holder), "-n", "/bin/sh", "-c", script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("network of %s: %w: %s", h.Name, err, out)
	}
	return nil
}

// Cut takes the host's link down, as if its cable were pulled: peers see silence, and no connection
// is reset. Namespaces only.
func (c *Cluster) Cut(ctx context.Context, host string) error {
	return c.inNet(ctx, c.launch, "ip link set "+c.Host(host).link(c)+" down")
}

// Restore undoes Cut.
func (c *Cluster) Restore(ctx context.Context, host string) error {
	return c.inNet(ctx, c.launch, "ip link set "+c.Host(host).link(c)+" up")
}
