package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// helm is the helm of this module.
type helm string

func buildHelm(t *testing.T) helm {
	t.Helper()
	program := filepath.Join(t.TempDir(), "helm")
	if out, err := exec.Command("./helm", program).CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v: %s", err, out)
	}
	return helm(program)
}

func (h helm) run(args ...string) (string, error) {
	cmd := exec.Command(string(h), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+filepath.Dir(string(h)))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// chart are the documents of the chart, by kind.
type chart struct {
	service corev1.Service
	config  corev1.ConfigMap
	secret  corev1.Secret
	workers appsv1.StatefulSet
	driver  batchv1.Job
	claim   corev1.PersistentVolumeClaim
	role    rbacv1.Role
}

// render renders the chart as a release ddp.
func (h helm) render(t *testing.T, args ...string) (c chart) {
	t.Helper()
	text, err := h.run(append([]string{"template", "ddp", "../chart"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	into := map[string]any{
		"Service":               &c.service,
		"ConfigMap":             &c.config,
		"Secret":                &c.secret,
		"StatefulSet":           &c.workers,
		"Job":                   &c.driver,
		"PersistentVolumeClaim": &c.claim,
		"Role":                  &c.role,
		"RoleBinding":           &rbacv1.RoleBinding{},
		"ServiceAccount":        &corev1.ServiceAccount{},
		"NetworkPolicy":         &networkingv1.NetworkPolicy{},
	}
	for _, document := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if into[kind.Kind] == nil {
			t.Fatalf("a document of kind %q, which is not expected or the second one:\n%s", kind.Kind, document)
		}
		if err := strict(document, into[kind.Kind]); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		delete(into, kind.Kind)
	}
	if len(into) > 1 || len(into) == 1 && into["PersistentVolumeClaim"] == nil {
		t.Errorf("no %v", slices.Sorted(maps.Keys(into)))
	}
	return c
}

// keys returns the files of a key pair, as the values that give it to the chart.
func keys(t *testing.T) (arg, private, public string) {
	t.Helper()
	dir := t.TempDir()
	private = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----\n"
	public = "ssh-ed25519 AAAA ada@here\n"
	for name, text := range map[string]string{"id_rsa": private, "id_rsa.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("--set-file=ssh.hostKey=%s/id_rsa,ssh.hostKeyPub=%[1]s/id_rsa.pub", dir), private, public
}

func TestChart(t *testing.T) {
	h := buildHelm(t)
	t.Run("clean", h.clean)
	t.Run("documents", h.documents)
	t.Run("keys", h.keys)
	t.Run("resources", h.resources)
	t.Run("mistakes", h.mistakes)
}

func (h helm) clean(t *testing.T) {
	files, _, _ := keys(t)
	if out, err := h.run("lint", "--strict", "../chart", files); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func (h helm) documents(t *testing.T) {
	files, private, public := keys(t)
	c := h.render(t, files, "--set=driver.args={gorun hostname,&& true}", "--set=worker.env.A=1")
	checkRestricted(t, "worker", c.workers.Spec.Template.Spec)
	checkConfined(t, "driver", c.driver.Spec.Template.Spec)
	worker := only(t, c.workers.Spec.Template.Spec)
	driver := only(t, c.driver.Spec.Template.Spec)
	if got := driver.Command; len(got) != 3 || got[2] != "gorun hostname && true" {
		t.Errorf("the driver runs %q", got)
	}
	if len(worker.Env) != 1 || worker.Env[0].Name != "A" || !listens(worker) ||
		*c.workers.Spec.Replicas != 3 || c.workers.Spec.ServiceName != c.service.Name {
		t.Errorf("%+v", c.workers.Spec)
	}
	const hosts = "ddp-gorun-driver slots=1\nddp-gorun-0.ddp-gorun slots=1\nddp-gorun-1.ddp-gorun slots=1\n" +
		"ddp-gorun-2.ddp-gorun slots=1\n"
	if got := c.config.Data["hostfile"]; got != hosts {
		t.Errorf("hostfile:\n%s", got)
	}
	for name, want := range map[string]string{
		"id_rsa":          private,
		"authorized_keys": public,
		"known_hosts":     "[*.ddp-gorun]:2222,[*.ddp-gorun.*]:2222 " + public,
	} {
		if got := string(c.secret.Data[name]); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	rules := fmt.Sprint(c.role.Rules)
	if len(c.role.Rules) != 1 || rules != fmt.Sprint([]rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"},
		APIGroups: []string{""}, Resources: []string{"pods"}}}) {
		t.Errorf("the driver may %s", rules)
	}
}

// A key keeps its lines though a shell has put blanks before them, or taken its last newline.
func (h helm) keys(t *testing.T) {
	_, private, public := keys(t)
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(private), "\n", "\n    ")
	c := h.render(t, "--set=ssh.useSecret=true", "--set=ssh.hostKey="+indented,
		"--set=ssh.hostKeyPub=    "+strings.TrimSpace(public), "--set=ssh.port=22")
	if got := string(c.secret.Data["id_rsa"]); got != private {
		t.Errorf("%q", got)
	}
	if got := string(c.secret.Data["known_hosts"]); got != "*.ddp-gorun,*.ddp-gorun.* "+public {
		t.Errorf("%q", got)
	}
}

func (h helm) resources(t *testing.T) {
	files, _, _ := keys(t)
	c := h.render(t, files, "--set=resources.worker.limits.nvidia\\.com/gpu=4", "--set=driver.slots=0",
		"--set=worker.number=1", "--set=datasetPvc.enabled=true", "--set=datasetPvc.storageClassName=fast")
	if got := c.config.Data["hostfile"]; got != "ddp-gorun-0.ddp-gorun slots=4\n" {
		t.Errorf("hostfile:\n%s", got)
	}
	if !strings.Contains(c.config.Data["discoverHosts.sh"], "ddp-gorun:4") {
		t.Error(c.config.Data["discoverHosts.sh"])
	}
	claim := c.claim.Spec
	if *claim.StorageClassName != "fast" || claim.Resources.Requests.Storage().String() != "10Gi" {
		t.Errorf("%+v", claim)
	}
	for _, spec := range []corev1.PodSpec{c.workers.Spec.Template.Spec, c.driver.Spec.Template.Spec} {
		mounted := func(m corev1.VolumeMount) bool { return m.Name == "dataset" && m.MountPath == "/dataset" }
		claimed := func(v corev1.Volume) bool {
			return v.Name == "dataset" && v.PersistentVolumeClaim.ClaimName == c.claim.Name
		}
		if !slices.ContainsFunc(only(t, spec).VolumeMounts, mounted) || !slices.ContainsFunc(spec.Volumes, claimed) {
			t.Errorf("%+v", spec)
		}
	}
}

func (h helm) mistakes(t *testing.T) {
	files, _, _ := keys(t)
	for arg, want := range map[string]string{
		"--set=a=1":                     "'a' not allowed",
		"--set=ssh.useSecrets=true":     "'useSecrets' not allowed",
		"--set=resources.limits.cpu=1":  "'limits' not allowed",
		"--set=worker.number=many":      "want integer",
		"--set=ssh.hostKey=":            "make a key by ssh-keygen",
		"--set=datasetPvc.mountPath=at": "does not match pattern",
	} {
		args := []string{"template", "ddp", "../chart", files, arg}
		if strings.Contains(arg, "hostKey") {
			args = []string{"template", "ddp", "../chart", arg}
		}
		if out, err := h.run(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", arg, err, out)
		}
	}
}
