package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/internal/usage"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// These tests run the commands of examples/kubernetes. The module examples/kubernetes/check
// compares its manifests with the types of Kubernetes.

var kubernetesExamples = root + "/examples/kubernetes/"

// TestKubernetesCommandsArePlanned runs the command lines of the manifests up to the plan, in the
// environment that the MPI operator makes.
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
		text := must.Get(os.ReadFile(kubernetesExamples + name))(t)
		var manifest struct{ Spec yaml.Node }
		must.OK(t, yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[document]), &manifest))
		must.OK(t, manifest.Spec.Decode(&spec))
		return spec
	}
	files := t.TempDir()
	hostfile := filepath.Join(files, "hostfile")
	must.OK(t, os.WriteFile(hostfile, []byte("train-worker-0.train.default.svc "+
		"slots=2\ntrain-worker-1.train.default.svc slots=2\n"), 0o444))
	operator := []string{"K_MPI_JOB_ROLE=launcher", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
		"OMPI_MCA_orte_default_hostfile=" + hostfile,
		"OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots=2",
		"KUBERNETES_SERVICE_HOST=10.0.0.1"}
	args := read("mpijob.yaml", 0).Replicas["Launcher"].Template.Spec.Containers[0].Args
	r := command.StartIn(t, nil, operator, append([]string{"--dry-run"}, args...)...).Want(0)
	check.That(t, r.Err.Len() == 0 && strings.HasPrefix(r.Out.String(),
		"4 ranks on 2 hosts\n  train-worker-0.train.default.svc  2 slots, ranks 0-1\n"),
		"plan %s, stderr %s", &r.Out, &r.Err)

	script := read("job.yaml", 1).Template.Spec.Containers[0].Command
	_, line, found := strings.Cut(script[len(script)-1], "exec gorun ")
	line, _, _ = strings.Cut(line, "\n")
	args, err := usage.SplitShell(line)
	must.That(t, err == nil && found, "%q: %v", script, err)
	r = command.Start(t, nil, append([]string{"--dry-run"}, args...)...).Want(0)
	check.That(t, strings.HasPrefix(r.Out.String(), "6 ranks on 3 hosts\n  train-0") && r.Err.Len() == 0,
		"plan %s, stderr %s", &r.Out, &r.Err)
}

// docs/kubernetes.md shows the examples as they are.
func TestKubernetesDocument(t *testing.T) {
	read := func(name string) string {
		text := must.Get(os.ReadFile(name))(t)
		return string(text)
	}
	guide := read(root + "/docs/kubernetes.md")
	job := read(kubernetesExamples + "mpijob.yaml")
	_, args, _ := strings.Cut(job, "command: [gorun]\n")
	args, _, _ = strings.Cut(args, "\n")
	check.That(t, args != "" && strings.Contains(guide, args), "the guide lacks %s", args)
}
