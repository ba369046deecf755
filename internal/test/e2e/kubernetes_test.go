package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/lab"
)

// These tests run the commands of examples/kubernetes. The module examples/kubernetes/check compares its manifests with
// the types of Kubernetes.

var kubernetesExamples = root + "/examples/kubernetes/"

// TestKubernetesCommandsArePlanned runs the command lines of the manifests up to the plan, in the environment that the MPI
// operator makes.
func TestKubernetesCommandsArePlanned(t *testing.T) {
	type container struct{ Command, Args []string }
	type template struct {
		Template struct {
			Spec struct{ Containers []container }
		}
	}
	read := func(name string, document int) (spec struct {
		template `yaml:",inline"`
		Replicas map[string]template `yaml:"mpiReplicaSpecs"`
	}) {
		t.Helper()
		text, err := os.ReadFile(kubernetesExamples + name)
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct{ Spec yaml.Node }
		if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[document]), &manifest); err != nil {
			t.Fatal(err)
		}
		if err := manifest.Spec.Decode(&spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	files := t.TempDir()
	hostfile := filepath.Join(files, "hostfile")
	if err := os.WriteFile(hostfile, []byte("train-worker-0.train.default.svc slots=2\ntrain-worker-1.train.default.svc slots=2\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	operator := []string{"K_MPI_JOB_ROLE=launcher", "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_orte_default_hostfile=" + hostfile,
		"OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots=2", "KUBERNETES_SERVICE_HOST=10.0.0.1"}
	args := read("mpijob.yaml", 0).Replicas["Launcher"].Template.Spec.Containers[0].Args
	r := startIn(t, nil, operator, append([]string{"--dry-run"}, args...)...).want(0)
	if !strings.HasPrefix(r.out.String(), "4 ranks on 2 hosts\n  train-worker-0.train.default.svc  2 slots, ranks 0-1\n") || r.err.Len() > 0 {
		t.Errorf("plan %s, stderr %s", &r.out, &r.err)
	}

	command := read("job.yaml", 1).Template.Spec.Containers[0].Command
	_, line, found := strings.Cut(command[len(command)-1], "exec gorun ")
	line, _, _ = strings.Cut(line, "\n")
	args, err := usage.SplitShell(line)
	if err != nil || !found {
		t.Fatalf("%q: %v", command, err)
	}
	r = start(t, nil, append([]string{"--dry-run"}, args...)...).want(0)
	if !strings.HasPrefix(r.out.String(), "6 ranks on 3 hosts\n  train-0") || r.err.Len() > 0 {
		t.Errorf("plan %s, stderr %s", &r.out, &r.err)
	}
}

// docs/kubernetes.md shows the examples as they are.
func TestKubernetesDocument(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	guide, job := read(root+"/docs/kubernetes.md"), read(kubernetesExamples+"mpijob.yaml")
	_, args, _ := strings.Cut(job, "command: [gorun]\n")
	args, _, _ = strings.Cut(args, "\n")
	for _, want := range []string{args, read(kubernetesExamples + "kubexec.sh")} {
		if want == "" || !strings.Contains(guide, want) {
			t.Errorf("the guide lacks %s", want)
		}
	}
}

// kubexec.sh and kubectl exec -i pass on every byte.
func TestKubernetesScriptReachesPods(t *testing.T) {
	dir := pods(t, "/no/such/path")
	script, err := filepath.Abs(kubernetesExamples + "kubexec.sh")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	r := startIn(t, nil, env, "-H", "job-worker-0:2,job-worker-1:2", "--launch-agent", script, "--wdir", "/", binary("allreduce")).want(0)
	if strings.Count(r.out.String(), "the sum is 6\n") != 4 {
		t.Errorf("output %q", &r.out)
	}
}

// sshd accepts the pods' configuration, and one host key covers all pods of a service.
func TestKubernetesKeys(t *testing.T) {
	lab.Need(t, "ssh-keygen")
	c := lab.MustNamespaces(t, lab.Spec{Name: "train-1.train"})
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		lab.Skip(t, "sshd is elsewhere")
	}
	key := filepath.Join(t.TempDir(), "host_key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := filepath.Abs(kubernetesExamples + "sshd_config")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.On(t.Context(), "train-1.train", sshd, "-t", "-f", config, "-h", key).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("sshd_config: %v: %s", err, out)
	}
	if err := os.WriteFile(c.KnownHosts, []byte("*.train "+c.Host("train-1.train").Keys[0]+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ssh, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	named := strings.ReplaceAll(string(ssh), c.Host("train-1.train").Addr, "train-1.train")
	if err := os.WriteFile(c.ConfigFile, []byte(named), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, c, "-H", "train-1.train:2", "true").want(0)
}

// gorun retries a pod that does not exist yet until the start timeout.
func TestPodsAreWaitedFor(t *testing.T) {
	r := startIn(t, nil, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, "-H", "nohost.invalid", "--start-timeout", "6", "true").want(125, "nohost.invalid")
	if r.took < 5*time.Second {
		t.Errorf("gave up after %v", r.took)
	}
}
