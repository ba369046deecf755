package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurmStart bounds the start of a Slurm cluster.
const slurmStart = 60 * time.Second

// Slurm is a running Slurm cluster: one slurmctld, and a slurmd for every node, all on
// this machine under one host name. Its methods may be called concurrently, but none
// after Close.
type Slurm struct {
	Dir  string // private to the cluster, removed by Close
	Conf string // its slurm.conf, for SLURM_CONF
	// n1, n2, …; each has 4 CPUs and 2 GPUs that are not real, and where no partition is named jobs
	// run there
	Nodes []string
	Aside string // a further node, alone in the partition of this name

	cluster *Cluster
}

// StartSlurm starts a Slurm cluster of n nodes and one aside with a munge key, sockets, ports and
// state of its own. It needs root, since slurmd does, and Slurm's and munge's daemons.
func StartSlurm(ctx context.Context, n int) (*Slurm, error) {
	if os.Getuid() != 0 {
		return nil, &MissingError{"root", "slurmd needs it"}
	}
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun"} {
		if _, err := daemon(program); err != nil {
			return nil, err
		}
	}
	c, err := newCluster(ctx, Specs(1))
	if err != nil {
		return nil, closing(c, err)
	}
	s := &Slurm{
		Dir:     c.Dir,
		Conf:    filepath.Join(c.Dir, "slurm.conf"),
		Aside:   "aside",
		cluster: c,
	}
	for i := range n {
		s.Nodes = append(s.Nodes, "n"+strconv.Itoa(i+1))
	}
	ctx, cancel := context.WithTimeout(ctx, slurmStart)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return nil, closing(c, fmt.Errorf("%w\n%s", err, s.Logs()))
	}
	return s, nil
}

// MustSlurm is [StartSlurm] for a test: it ends with the test, skips it on a machine without Slurm,
// and prints the daemons' logs if it fails.
func MustSlurm(t testing.TB, n int) *Slurm {
	t.Helper()
	s, err := StartSlurm(t.Context(), n)
	var missing *MissingError
	if errors.As(err, &missing) {
		Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Command is exec.CommandContext for a program that finds the cluster: sbatch, salloc,
// squeue and so on.
func (s *Slurm) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.Conf, s.cluster.mark)
	return cmd
}

// Logs returns the end of every daemon's log.
func (s *Slurm) Logs() string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(file), text[max(0, len(text)-4<<10):])
	}
	return b.String()
}

// Close ends all daemons and jobs, waits for them and removes the directory.
func (s *Slurm) Close() error {
	err := s.cluster.Close()
	for _, pid := range holders(s.Dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a step that waits for a controller that is no more
	}
	return err
}

// holders returns the processes that have a file below dir open.
func holders(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		file, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(file, dir+"/") {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil && pid != os.Getpid() && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// daemon finds a program that may be in a folder outside users' PATH.
func daemon(name string) (string, error) {
	path, err := findProgram(name, "/usr/sbin/"+name, "/usr/local/sbin/"+name)
	if err != nil {
		return "", &MissingError{name, "install Slurm: apt-get install slurmctld slurmd slurm-client munge"}
	}
	return path, nil
}

func (s *Slurm) start(ctx context.Context) error {
	if err := s.startMunge(ctx); err != nil {
		return err
	}
	if err := s.writeConf(ctx); err != nil {
		return err
	}
	if err := s.launch("slurmctld", "-D", "-f", s.Conf); err != nil {
		return err
	}
	for _, node := range s.all() {
		if err := s.launch("slurmd", "-D", "-N", node, "-f", s.Conf); err != nil {
			return err
		}
	}
	return poll(ctx, "idle nodes", func() bool {
		out, err := s.Command(ctx, "sinfo", "-h", "-N", "-o", "%T").Output()
		return err == nil && strings.TrimSpace(string(out)) == strings.TrimSpace(strings.Repeat("idle\n", len(s.all())))
	})
}

func (s *Slurm) startMunge(ctx context.Context) error {
	var key [128]byte
	rand.Read(key[:])
	if err := os.WriteFile(s.file("munge.key"), key[:], 0o400); err != nil {
		return err
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil { // munged wants its socket open to all
		return err
	}
	err := s.launch("munged", "--foreground", "--force", "--key-file="+s.file("munge.key"), "--socket="+
		s.file("munge.sock"),
		"--pid-file="+s.file("munged.pid"), "--log-file="+s.file("munged.log"), "--seed-file="+s.file("munged.seed"))
	if err != nil {
		return err
	}
	return poll(ctx, "munge's socket", func() bool {
		_, err := os.Stat(s.file("munge.sock"))
		return err == nil
	})
}

// launch starts one of the daemons.
func (s *Slurm) launch(name string, args ...string) error {
	path, err := daemon(name)
	if err != nil {
		return err
	}
	if err := s.cluster.run(exec.Command(path, args...)); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

func (s *Slurm) all() []string { return append(slices.Clone(s.Nodes), s.Aside) }

func (s *Slurm) file(name string) string { return filepath.Join(s.Dir, name) }

// writeConf writes slurm.conf. A cancelled job has 5 s until SIGKILL.
func (s *Slurm) writeConf(ctx context.Context) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	ports, err := freePorts(ctx, len(s.all())+1)
	if err != nil {
		return err
	}
	lines := []string{
		"ClusterName=lab",
		fmt.Sprintf("SlurmctldHost=%s(127.0.0.1)", hostname),
		fmt.Sprintf("SlurmctldPort=%d", ports[0]),
		"AuthType=auth/munge",
		"AuthInfo=socket=" + s.file("munge.sock"),
		"CredType=cred/munge",
		"SlurmUser=root",
		"SlurmdUser=root",
		"StateSaveLocation=" + s.file("state"),
		"SlurmdSpoolDir=" + s.file("spool.%n"),
		"SlurmctldPidFile=" + s.file("slurmctld.pid"),
		"SlurmdPidFile=" + s.file("slurmd.%n.pid"),
		"SlurmctldLogFile=" + s.file("slurmctld.log"),
		"SlurmdLogFile=" + s.file("slurmd.%n.log"),
		"ProctrackType=proctrack/linuxproc",
		"TaskPlugin=task/none",
		"JobAcctGatherType=jobacct_gather/none",
		"SelectType=select/cons_tres",
		"SelectTypeParameters=CR_CPU",
		"MpiDefault=none",
		"GresTypes=gpu",
		"SlurmdParameters=config_overrides", // more CPUs than the machine has
		"ReturnToService=2",
		"KillWait=5",
		// else batch jobs wait for 3 s, those of several parts for 30 s
		"SchedulerParameters=batch_sched_delay=0,bf_interval=1",
	}
	for i, node := range s.all() {
		lines = append(lines, fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 "+
			"RealMemory=1000 Gres=gpu:2 State=UNKNOWN", node, hostname, ports[i+1]))
	}
	lines = append(lines, "PartitionName=debug Nodes="+strings.Join(s.Nodes, ",")+
		" Default=YES State=UP OverSubscribe=FORCE:8",
		fmt.Sprintf("PartitionName=%s Nodes=%s State=UP", s.Aside, s.Aside))
	if err := s.makeGPUs(); err != nil {
		return err
	}
	return os.WriteFile(s.Conf, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// makeGPUs makes device nodes, copies of /dev/null, that stand for every node's GPUs.
func (s *Slurm) makeGPUs() error {
	for i := range 2 {
		if err := syscall.Mknod(s.file("gpu"+strconv.Itoa(i)), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			return fmt.Errorf("make a device: %w", err)
		}
	}
	return os.WriteFile(s.file("gres.conf"), []byte("Name=gpu File="+s.file("gpu[0-1]")+"\n"), 0o644)
}

// freePorts returns n ports of 127.0.0.1 that are free now, all different.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	var lc net.ListenConfig
	for range n {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// poll checks every few milliseconds until ok returns true or ctx ends.
func poll(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
