// Package check holds the Kubernetes examples against the API's own Go types.
package check

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// sshPort is where the pods' servers listen, which run without root.
const sshPort = 2222

// home is the home of the image's user.
const home = "/home/gorun"

// checkRestricted holds a pod against the Pod Security Standard "restricted", and more: it has no
// token for Kubernetes' API, cannot write to its image, and reads Secrets only.
func checkRestricted(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	if token := spec.AutomountServiceAccountToken; token == nil || *token {
		t.Errorf("%s has a token for the API", name)
	}
	checkConfined(t, name, spec)
}

// checkConfined is checkRestricted for a pod that may have a token.
func checkConfined(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &metav1.ObjectMeta{},
		&spec)); !result.Allowed {
		t.Errorf("%s: %s", name, result.ForbiddenDetail())
	}
	if links := spec.EnableServiceLinks; links == nil || *links {
		t.Errorf("%s gets variables of all Services", name)
	}
	user := spec.SecurityContext
	if user == nil || user.RunAsUser == nil || *user.RunAsUser == 0 || user.RunAsGroup == nil ||
		*user.RunAsGroup == 0 || user.FSGroup == nil {
		t.Errorf("%s runs as %+v", name, user)
	}
	secrets := map[string]bool{}
	for _, v := range spec.Volumes {
		secrets[v.Name] = v.Secret != nil
		if v.Secret != nil && *v.Secret.DefaultMode&0o227 != 0 {
			t.Errorf("%s: the files of Secret %s have mode %#o", name, v.Secret.SecretName, *v.Secret.DefaultMode)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if own := c.SecurityContext; own == nil || own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem {
			t.Errorf("%s: %s may write to its image", name, c.Name)
		}
		for _, m := range c.VolumeMounts {
			if secrets[m.Name] && !m.ReadOnly {
				t.Errorf("%s: %s may write to %s", name, c.Name, m.MountPath)
			}
		}
	}
}

// Both sides of the image's SSH use the port of the manifests, and neither needs root.
func TestConfigurations(t *testing.T) {
	for name, lines := range map[string][]string{
		"ssh_config": {fmt.Sprintf("  Port %d", sshPort)},
		"sshd_config": {fmt.Sprintf("Port %d", sshPort), "PidFile none", "UsePAM no", "PermitRootLogin no",
			"PasswordAuthentication no", "DisableForwarding yes"},
		"Dockerfile": {"USER 1000:1000"},
	} {
		text, err := os.ReadFile(path.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !slices.Contains(strings.Split(string(text), "\n"), line) {
				t.Errorf("%s lacks %q", name, line)
			}
		}
	}
}

// decode reads the documents of a manifest; a field that the type does not have is an error.
func decode(t *testing.T, name string, into ...any) {
	t.Helper()
	text, err := os.ReadFile(path.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	if len(documents) != len(into) {
		t.Fatalf("%s has %d documents, want %d", name, len(documents), len(into))
	}
	for i, document := range documents {
		if err := strict(document, into[i]); err != nil {
			t.Errorf("%s, document %d: %v", name, i+1, err)
		}
	}
}

// strict decodes a document as kubectl apply --validate=strict does.
func strict(document string, into any) error {
	text, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}

// option is the value after a flag in a command line.
func option(t *testing.T, argv []string, flag string) string {
	t.Helper()
	i := slices.Index(argv, flag)
	if i < 0 || i+1 == len(argv) {
		t.Fatalf("%q has no %s", argv, flag)
	}
	return argv[i+1]
}

func only(t *testing.T, spec corev1.PodSpec) corev1.Container {
	t.Helper()
	if len(spec.Containers) != 1 {
		t.Fatalf("%d containers", len(spec.Containers))
	}
	return spec.Containers[0]
}

func listens(c corev1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == sshPort })
}

func TestStrictness(t *testing.T) {
	for _, text := range []string{"spec: {completion: 3}", "specs: {}", "Spec: {}", "spec: {completions: many}",
		"spec: {}\nspec: {}"} {
		if err := strict(text, &batchv1.Job{}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestMPIJob(t *testing.T) {
	var job v2beta1.MPIJob
	decode(t, "mpijob.yaml", &job)
	if job.APIVersion != v2beta1.SchemeGroupVersion.String() || job.Kind != v2beta1.Kind {
		t.Errorf("it is a %s of %s", job.Kind, job.APIVersion)
	}
	v2beta1.SetDefaults_MPIJob(&job)
	if errs := validation.ValidateMPIJob(&job); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	workers := job.Spec.MPIReplicaSpecs[v2beta1.MPIReplicaTypeWorker]
	for role, replicas := range job.Spec.MPIReplicaSpecs {
		checkRestricted(t, string(role), replicas.Template.Spec)
	}
	launcherSpec := job.Spec.MPIReplicaSpecs[v2beta1.MPIReplicaTypeLauncher]
	if launcherSpec.RestartPolicy != v2beta1.RestartPolicyNever {
		t.Errorf("restart %q: the operator would delete the pod of a failed job", launcherSpec.RestartPolicy)
	}
	launcher := only(t, launcherSpec.Template.Spec)
	worker := only(t, workers.Template.Spec)
	slots := *workers.Replicas * *job.Spec.SlotsPerWorker
	if np := option(t, launcher.Args, "-np"); np != fmt.Sprint(slots) {
		t.Errorf("-np %s, but there are %d slots", np, slots)
	}
	if !slices.Equal(launcher.Command, []string{"gorun"}) || slices.Contains(launcher.Args, "-H") ||
		slices.Contains(launcher.Args, "--hostfile") {
		t.Errorf("the launcher runs %q %q, which should find the operator's hostfile by itself", launcher.Command,
			launcher.Args)
	}
	// The operator's Secret holds no host keys, and the pods make new ones.
	if got := option(t, launcher.Args, "--host-keys"); got != "accept-new" {
		t.Errorf("--host-keys %s", got)
	}
	if job.Spec.MPIImplementation != v2beta1.MPIImplementationOpenMPI || job.Spec.SSHAuthMountPath != home+"/.ssh" {
		t.Errorf("%s, keys in %s", job.Spec.MPIImplementation, job.Spec.SSHAuthMountPath)
	}
	if launcher.Image != worker.Image || !listens(worker) ||
		!strings.Contains(strings.Join(worker.Command, " "), "sshd -D") {
		t.Errorf("launcher %s, worker %s, ports %v, command %q", launcher.Image, worker.Image, worker.Ports,
			worker.Command)
	}
}

func TestJob(t *testing.T) {
	var service corev1.Service
	var job batchv1.Job
	decode(t, "job.yaml", &service, &job)
	if service.APIVersion != "v1" || service.Kind != "Service" ||
		job.APIVersion != batchv1.SchemeGroupVersion.String() || job.Kind != "Job" {
		t.Errorf("%v, %v", service.TypeMeta, job.TypeMeta)
	}
	spec := job.Spec
	if *spec.CompletionMode != batchv1.IndexedCompletion || *spec.Completions != *spec.Parallelism ||
		*spec.BackoffLimit != 0 {
		t.Errorf("%s, %d completions, %d at a time, %d retries", *spec.CompletionMode, *spec.Completions,
			*spec.Parallelism, *spec.BackoffLimit)
	}
	if rules := spec.SuccessPolicy.Rules; len(rules) != 1 || *rules[0].SucceededIndexes != "0" {
		t.Errorf("it succeeds by %v", rules)
	}
	pod := spec.Template.Spec
	if pod.RestartPolicy != corev1.RestartPolicyNever || pod.Subdomain != service.Name {
		t.Errorf("restart %s, subdomain %s of service %s", pod.RestartPolicy, pod.Subdomain, service.Name)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses ||
		service.Spec.Selector[batchv1.JobNameLabel] != job.Name || service.Spec.Ports[0].Port != sshPort {
		t.Errorf("service %+v", service.Spec)
	}
	c := only(t, pod)
	if !listens(c) {
		t.Errorf("ports %v", c.Ports)
	}
	checkRestricted(t, "the pod", pod)
	checkHosts(t, c.Command[len(c.Command)-1], job.Name, service.Name, int(*spec.Completions))
	checkKeys(t, pod, c)
}

// checkHosts holds -H against the names that the pods get: pod 0 by its own name, the others by the
// service's.
func checkHosts(t *testing.T, script, job, service string, pods int) {
	t.Helper()
	found := regexp.MustCompile(`-H '([^':]+):(\d+),([^'\[]+)\[1-(\d+)\]\.([^':]+):(\d+)'`).FindStringSubmatch(script)
	if found == nil {
		t.Fatalf("no hosts in %s", script)
	}
	last, _ := strconv.Atoi(found[4])
	if found[1] != job+"-0" || found[3] != job+"-" || found[5] != service || last != pods-1 || found[2] != found[6] {
		t.Errorf("hosts %q of %d pods of job %s", found[0], pods, job)
	}
}

// checkKeys checks that sshd and gorun find the files of the Secrets that README.md makes, and that
// the container of ranks sees only those that an init container has picked for its pod.
func checkKeys(t *testing.T, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers", len(pod.InitContainers))
	}
	picks := pod.InitContainers[0]
	guide, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	picked := picks.Command[len(picks.Command)-1]
	for name, files := range map[string]string{
		"client": "train-client --from-file=id_ed25519 --from-file=known_hosts\n",
		"server": "train-server --from-file=host_key --from-file=authorized_keys=id_ed25519.pub\n",
	} {
		mounted := func(m corev1.VolumeMount) bool { return m.Name == name }
		if v := volumes[name]; v.Secret == nil || v.Secret.SecretName != "train-"+name ||
			!strings.Contains(string(guide), "secret generic "+files) {
			t.Errorf("volume %+v; README.md should make it of %s", v, files)
		}
		if !slices.ContainsFunc(picks.VolumeMounts, mounted) || slices.ContainsFunc(c.VolumeMounts, mounted) ||
			!strings.Contains(picked, "from=/"+name) {
			t.Errorf("keys of the %s: %+v and %+v, %s", name, picks.VolumeMounts, c.VolumeMounts, picked)
		}
	}
	i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == home+"/.ssh" })
	if i < 0 || !c.VolumeMounts[i].ReadOnly {
		t.Fatalf("no keys in %+v", c.VolumeMounts)
	}
	if v := volumes[c.VolumeMounts[i].Name]; v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
		t.Errorf("keys are copied to %+v", v)
	}
	if !strings.Contains(c.Command[len(c.Command)-1], "-h "+home+"/.ssh/host_key") ||
		!strings.Contains(string(guide), fmt.Sprintf("'[*.train]:%d ", sshPort)) {
		t.Errorf("sshd has no host key, or gorun does not know it: %s", c.Command)
	}
}
