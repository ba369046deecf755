package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
)

// account is the user who runs commands on the hosts.
type account struct {
	name     string
	uid, gid int
}

// Loopback starts one sshd for each spec, on a loopback address of its own and
// a free high port. Commands run as the current user, in that user's own home
// and login shell. Only Linux routes all of 127.0.0.0/8 by itself.
func Loopback(ctx context.Context, specs ...Spec) (*Cluster, error) {
	sshd, err := findSSHD()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "linux" {
		return nil, &MissingError{"Linux", "loopback hosts need its 127.0.0.0/8"}
	}
	if err := privilegeSeparation(); err != nil {
		return nil, err
	}
	c, err := newCluster(ctx, specs)
	if err != nil {
		return nil, closing(c, err)
	}
	if err := c.startLoopback(ctx, sshd, specs); err != nil {
		return nil, closing(c, err)
	}
	return c, nil
}

// closing takes down a cluster that failed to start.
func closing(c *Cluster, err error) error {
	if c != nil {
		c.Close()
	}
	return err
}

func (c *Cluster) startLoopback(ctx context.Context, sshd string, specs []Spec) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	c.user = account{name: me.Username, uid: os.Getuid(), gid: os.Getgid()}
	if err := c.writeUserKey(); err != nil {
		return err
	}
	block := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255))
	for i, spec := range specs {
		if i >= 254 {
			return fmt.Errorf("%d loopback hosts: 254 is the most", len(specs))
		}
		h := Host{Name: spec.hostName(i), Addr: block + strconv.Itoa(i+1)}
		if h.Port, err = freePort(ctx, h.Addr); err != nil {
			return err
		}
		if err := c.prepare(&h, spec, net.JoinHostPort(h.Addr, strconv.Itoa(h.Port))); err != nil {
			return err
		}
		args := h.sshdArgs(sshd)
		if err := c.run(exec.Command(args[0], args[1:]...)); err != nil {
			return fmt.Errorf("sshd of %s: %w", h.Name, err)
		}
		c.Hosts = append(c.Hosts, h)
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if h.PID, err = h.awaitSSHD(ctx); err != nil {
			return err
		}
	}
	return c.writeClientFiles()
}

// freePort returns a free port. It stays free, since nobody else uses the address.
func freePort(ctx context.Context, addr string) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// privilegeSeparation makes the empty directory that sshd requires when root starts it; a service
// manager makes it at boot.
func privilegeSeparation() error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.MkdirAll(filepath.Join("/run", "sshd"), 0o755)
}
