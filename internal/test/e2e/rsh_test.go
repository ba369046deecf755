package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// These tests reach hosts by programs other than gorun's SSH client.

// pods makes kubexec.sh as version 1 of the MPI operator does, and a kubectl behind it whose pods job-worker-0 and job-worker-1
// are directories. The path hidden is empty in every pod.
func pods(t *testing.T, hidden string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"kubexec.sh": "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n" + dir + "/kubectl exec ${POD_NAME} -- /bin/sh -c \"$*\"\n",
		"kubectl": `#!/bin/sh
pod= stdin=
shift # exec
while [ "$1" != -- ]; do
	case $1 in -i) stdin=yes ;; *) pod=$1 ;; esac
	shift
done
[ $# = 4 ] || exit 64 # -- /bin/sh -c LINE
case $pod in
job-worker-[01]) ;;
*) echo "Error from server (NotFound): pods \"$pod\" not found" >&2; exit 1 ;;
esac
case $4 in
*` + hidden + `*) echo "sh: 1: not found" >&2; exit 127 ;;
esac
HOME=` + dir + `/$pod
export HOME
cd /
[ "$stdin" ] || exec </dev/null
exec /bin/sh -c "$4"
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range []string{"job-worker-0", "job-worker-1"} {
		if err := os.Mkdir(filepath.Join(dir, pod), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPodsByKubexec(t *testing.T) {
	dir := pods(t, binary("gorun"))
	env := []string{"OMPI_MCA_plm_rsh_agent=" + filepath.Join(dir, "kubexec.sh"), "OMPI_MCA_plm_rsh_num_concurrent=2"}
	hosts := []string{"-H", "job-worker-0:2,job-worker-1:2", "--prefix", "none", "--wdir", "/"}
	r := startIn(t, nil, env, append(hosts, "sh", "-c", "echo $RANK $GORUN_HOSTNAME ${HOME##*/}")...).want(0)
	got := r.lines()
	slices.Sort(got)
	want := []string{"0 job-worker-0 job-worker-0", "1 job-worker-0 job-worker-0", "2 job-worker-1 job-worker-1", "3 job-worker-1 job-worker-1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, stderr %s", got, &r.err)
	}
	for _, pod := range []string{"job-worker-0", "job-worker-1"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pod, ".cache/gorun/*/gorun")); len(found) != 1 {
			t.Errorf("%s: uploaded %q", pod, found)
		}
	}
	startIn(t, nil, env, append(hosts, "sh", "-c", "[ $RANK = 3 ] && exit 3; exec sleep 60")...).want(3, "rank 3 on job-worker-1 exited with code 3")
	startIn(t, nil, env, "-H", "job-worker-0,job-worker-7", "true").want(125, "job-worker-7: not reached: kubexec.sh: exit status 1: Error from server (NotFound)", "kubexec.sh HOST hostname")
	startIn(t, nil, env, "-H", "job-worker-0,job-worker-1", "no-such-program").want(127, "job-worker-0, job-worker-1: ")
	// The command line wins.
	startIn(t, nil, env, "--launch-agent", "ssh", "-H", "nohost.invalid", "true").want(125, "nohost.invalid")
}

// sshScript returns a program that calls the real ssh.
func sshScript(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "remote")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nssh -F "+c.ConfigFile+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func TestHostsByOtherPrograms(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Specs(2)...)
	for name, how := range map[string][]string{
		"system-ssh": {"--launcher", "system-ssh"},
		"script":     {"--launch-agent", sshScript(t, c) + " -4 -o 'ServerAliveInterval 30'"},
	} {
		t.Run(name, func(t *testing.T) {
			on := func(hosts string, argv ...string) *run {
				return start(t, c, slices.Concat(how, []string{"--prefix", "none", "-H", hosts}, argv)...)
			}
			if r := on("f1:2,f2:2", binary("allreduce")).want(0); strings.Count(r.out.String(), "the sum is 6\n") != 4 {
				t.Errorf("output %q", &r.out)
			}
			if r := on("f1,f2", "head", "-c", "10000000", "/dev/zero").want(0); r.out.Len() != 20000000 {
				t.Errorf("%d bytes", r.out.Len())
			}
			on("f1:2,f2:2", "sh", "-c", "[ $RANK = 3 ] && exit 3; exec sleep 60").want(3, "rank 3 on f2 exited with code 3")
			on("f1,f2", "no-such-program").want(127, "f1, f2: ", "no-such-program")
			on("f1,127.0.0.9", "true").want(125, "127.0.0.9: not reached: ") // names can take long not to be found
			for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
				r := on("f1,f2", "sh", "-c", "echo up; exec sleep 300")
				await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "up") == 2 })
				if err := r.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				if code := r.wait(); code != 128+int(signal) {
					t.Errorf("%v: exit code %d: %s", signal, code, &r.err)
				}
				r.nothingLeft(7 * time.Second)
			}
		})
	}
}

// Features that only ssh has work on request, such as a ControlMaster, which outlives its command.
func TestSystemSSHObeysItsConfiguration(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Specs(1)...)
	text, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(c.Dir, "master")
	options := "Host *\n  ControlMaster auto\n  ControlPath " + socket + "\n  ControlPersist 60\n"
	if err := os.WriteFile(c.ConfigFile, append([]byte(options), text...), 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, c, "--launcher", "system-ssh", "-H", "f1:2", "hostname")
	if code := r.wait(); code != 0 || len(r.lines()) != 2 {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
	if out, err := exec.Command("ssh", "-F", c.ConfigFile, "-O", "exit", "f1").CombinedOutput(); err != nil {
		t.Errorf("no master was kept: %v: %s", err, out)
	}
	r.nothingLeft(7 * time.Second)
}

// Host-based authentication needs the system's ssh.
func TestHostBasedAuthentication(t *testing.T) {
	lab.Need(t, "ssh", "ssh-keygen")
	files := t.TempDir() // stands for /etc/ssh on the launcher's host
	key := filepath.Join(files, "ssh_host_ed25519_key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	spec := lab.Spec{
		Options: []string{"HostbasedAuthentication yes", "HostbasedUsesNameFromPacketOnly yes", "IgnoreRhosts no", "PubkeyAuthentication no"},
		Files:   map[string]string{".shosts": "f0\n", ".ssh/known_hosts": "f0 " + string(public)},
	}
	c := lab.MustNamespaces(t, spec, spec, lab.Spec{})
	start(t, c, "-H", "f1", "true").want(125, "f1 (", "the server takes only hostbased")

	// ssh-keysign reads its permission from the system's file only.
	if err := os.WriteFile(filepath.Join(files, "ssh_config"), []byte("EnableSSHKeysign yes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	config, err := os.OpenFile(c.ConfigFile, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(config, "  HostbasedAuthentication yes"); err != nil {
		t.Fatal(err)
	}
	if err := config.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, c, "-H", "f1", "true").want(125, "f1: ", "the server takes only hostbased", "by the system's ssh: not reached: ", "Permission denied")
	if strings.Contains(r.err.String(), "reached by") {
		t.Errorf("stderr %s", &r.err)
	}
	if out, err := c.Command(t.Context(), "mount", "--bind", files, "/etc/ssh").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r = start(t, c, "--prefix", "none", "-H", "f1,f2,f3", "sh", "-c", "echo $GORUN_HOSTNAME").want(0)
	got := r.lines()
	slices.Sort(got)
	if !slices.Equal(got, []string{"f1", "f2", "f3"}) || r.err.String() != "gorun: f1, f2: reached by the system's ssh (GSSAPI or host-based authentication)\n" {
		t.Errorf("output %q, stderr %q", got, &r.err)
	}
}
