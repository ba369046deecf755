package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// node is a machine of the cluster, seen by its process 1.
type node struct {
	home       string // of its files, which the cluster's guardian removes
	parts      string
	number     int
	kubeconfig string
	groups     []string
	images     []string
}

// runNode is process 1 of a node. Its first argument is the step: a process sees a new cgroup
// namespace from where it was, so it joins the node's cgroups and begins anew.
func runNode(args []string) error {
	step := args[0]
	number, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	n := &node{
		home:       args[1],
		parts:      args[2],
		number:     number,
		kubeconfig: args[4],
		groups:     strings.Split(args[5], ":"),
		images:     args[6:],
	}
	if step == "join" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the cable is there
		return n.join(args)
	}
	for _, step := range []func() error{n.mounts, n.cgroups, n.kernel, n.network, n.configure, n.start} {
		if err := step(); err != nil {
			return err
		}
	}
	for { // orphans become children of process 1
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return errors.New("nothing runs any more")
		}
	}
}

func (n *node) join(args []string) error {
	runtime.LockOSThread() // the namespace is this thread's, and exec keeps it
	if err := errors.Join(joinGroups(n.groups), unix.Unshare(unix.CLONE_NEWCGROUP)); err != nil {
		return err
	}
	argv := append([]string{"kube", NodeCommand, "run"}, args[1:]...)
	return syscall.Exec("/proc/self/exe", argv, os.Environ())
}

// mounts gives the node its own /proc, /run, /var/lib and /var/log.
func (n *node) mounts() error {
	for _, name := range []string{"varlib", "varlog", "cni", "tmp"} {
		if err := os.Mkdir(filepath.Join(n.home, name), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		unix.Sethostname([]byte(nodeName(n.number))),
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
		unix.Mount(filepath.Join(n.home, "varlib"), "/var/lib", "", unix.MS_BIND, ""),
		unix.Mount(filepath.Join(n.home, "varlog"), "/var/log", "", unix.MS_BIND, ""),
		os.MkdirAll("/run/netns", 0o755),
		os.MkdirAll("/var/lib/cni", 0o755),
		os.MkdirAll("/var/lib/kubelet", 0o755),
		os.MkdirAll("/var/lib/containerd", 0o755),
	)
}

// cgroups mounts the hierarchies as the node's cgroup namespace shows them.
func (n *node) cgroups() error {
	all, err := ownHierarchiesIn(n.groups)
	if err != nil {
		return err
	}
	if len(all) == 1 && all[0].name == "" {
		if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
			return err
		}
		// A group with controllers for its members has no process of its own.
		if err := errors.Join(os.Mkdir(cgroupRoot+"/init", 0o755),
			os.WriteFile(cgroupRoot+"/init/cgroup.procs", []byte("0"), 0)); err != nil {
			return err
		}
	} else {
		if err := unix.Mount("tmpfs", cgroupRoot, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
		for _, h := range all {
			at := filepath.Join(cgroupRoot, h.name)
			options := h.mount
			if strings.HasPrefix(h.mount, "name=") {
				options = "none," + h.mount
			}
			if err := errors.Join(os.Mkdir(at, 0o755), unix.Mount("cgroup", at, "cgroup", 0, options)); err != nil {
				return fmt.Errorf("mount the cgroup hierarchy %q: %w", h.name, err)
			}
		}
	}
	return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// ownHierarchiesIn returns the hierarchies in which this process has joined groups.
func ownHierarchiesIn(groups []string) (all []hierarchy, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return hierarchies(string(text), func(folder string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(folder, cgroupRoot), "/"), "/")
		for _, group := range groups {
			if strings.HasPrefix(group, filepath.Join(cgroupRoot, name)+"/") {
				return true
			}
		}
		return false
	}), nil
}

// kernel shows kubelet settings of the machine as it wants them, so that it does not set them.
func (n *node) kernel() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join("/run/sysctl", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o644),
			unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("show the kernel setting %s: %w", name, err)
		}
	}
	return nil
}

func (n *node) network() error {
	return forward(context.Background(), "link set lo up", "addr add "+nodeAddr(n.number)+"/24 dev eth0",
		"link set eth0 up", "route add default via "+controlAddr)
}

//go:embed containerd.toml
var containerdConfig string

//go:embed kubelet.yaml
var kubeletConfig string

//go:embed cni.json
var cniConfig string

func (n *node) configure() error {
	fill := strings.NewReplacer("{parts}", n.parts, "{home}", n.home, "{address}", nodeAddr(n.number),
		"{dns}", controlAddr, "{pods}", podRange(n.number)).Replace
	for name, text := range map[string]string{
		"containerd.toml":        containerdConfig,
		"kubelet.yaml":           kubeletConfig,
		"cni/10-bridge.conflist": cniConfig,
	} {
		if err := os.WriteFile(filepath.Join(n.home, name), []byte(fill(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) start() error {
	programs := n.parts + "/root/usr/"
	path := programs + "bin:" + programs + "sbin:" + os.Getenv("PATH")
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	if err := n.daemon("containerd", "--config", filepath.Join(n.home, "containerd.toml")); err != nil {
		return err
	}
	for begun := time.Now(); exec.Command("ctr", "version").Run() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			return errors.New("containerd does not answer")
		}
	}
	for _, image := range n.images {
		if out, err := exec.Command("ctr", "-n", "k8s.io", "image", "import", image).CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", image, err, out)
		}
	}
	return n.daemon(filepath.Join(n.parts, "bin/kubelet"), "--config", filepath.Join(n.home, "kubelet.yaml"),
		"--kubeconfig", n.kubeconfig, "--hostname-override", nodeName(n.number), "--node-ip", nodeAddr(n.number),
		"--root-dir", "/var/lib/kubelet", "--cert-dir", "/var/lib/kubelet/pki")
}

// daemon starts a program, for which runNode waits. Its output goes to a file beside node.log.
func (n *node) daemon(program string, args ...string) error {
	name := filepath.Base(program)
	log, err := os.Create(filepath.Join(n.home, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}
