package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/kube/cluster"
)

func TestMain(m *testing.M) {
	cluster.Main(os.Args)
	if dir := os.Getenv(runsIn); dir != "" {
		os.Exit(run(1, os.Getenv("GORUN_KUBE"), filepath.Join(dir, "bin"), []string{"sh", "-c", "echo up; sleep 1000"}))
	}
	os.Exit(m.Run())
}

// runsIn makes the tests' program a cluster with one command, for the repository in its value.
const runsIn = "GORUN_TEST_KUBE_IN"

// limit bounds each job. On an idle machine they take ten seconds.
const limit = 3 * time.Minute

// world is a cluster with the MPI operator, and the programs of gorun in its image.
type world struct {
	*cluster.Cluster
	t   *testing.T
	bin string // folder of gorun and its examples
}

// parts returns the folder that .ci/kube has made, or skips the test with the reason.
func parts(t *testing.T) string {
	t.Helper()
	parts := os.Getenv("GORUN_KUBE")
	if parts == "" || os.Getuid() != 0 {
		skip(t, "a cluster needs root, and GORUN_KUBE with the folder that .ci/kube prints")
	}
	return parts
}

// skip skips a test, but fails it in CI.
func skip(t *testing.T, missing string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// programs returns the folder of gorun and its examples.
func programs(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin")
}

// start starts a cluster with gorun-example and the images of more archives.
func start(t *testing.T, nodes int, more ...string) *world {
	t.Helper()
	parts := parts(t)
	bin := programs(t)
	images, err := cluster.ExampleImages(t.TempDir(), parts, bin)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Nodes:  nodes,
		Parts:  parts,
		Images: append(images, more...),
		Log:    os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%d nodes after %v", nodes, time.Since(begun).Round(100*time.Millisecond))
	w := &world{c, t, bin}
	return w
}

// kubectl runs kubectl, which must succeed.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply gives manifests to the cluster.
func (w *world) apply(t *testing.T, manifests string) {
	t.Helper()
	cmd := w.Command(t.Context(), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s\n%s", err, out, manifests)
	}
}

// await asks until ok, or fails the test with what is there.
func (w *world) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(200 * time.Millisecond) {
		if time.Since(begun) > limit {
			pods, _ := w.Kubectl(t.Context(), "describe", "pods", "-A")
			t.Fatalf("%s: not after %v\n%s", what, limit, pods)
		}
	}
}

// ended waits until a Job has succeeded or failed, and returns the log of its pods, which must stay
// when the Job has ended: workers do not.
func (w *world) ended(t *testing.T, job, pods string) (succeeded bool, log string) {
	t.Helper()
	w.await(t, "the end of "+job, func() bool {
		state, _ := w.Kubectl(t.Context(), "get", job, "-o", `jsonpath={.status.conditions[?(@.status=="True")].type}`)
		succeeded = strings.Contains(state, "Succeeded") || strings.Contains(state, "Complete")
		return succeeded || strings.Contains(state, "Failed")
	})
	log, err := w.Kubectl(t.Context(), "logs", "-l", pods, "--tail=-1")
	if err != nil {
		t.Error(err)
	}
	return succeeded, log
}

// example returns a file of examples/kubernetes.
func (w *world) example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.bin, "../examples/kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sums are the lines of the example allreduce with n ranks.
func sums(t *testing.T, log string, ranks, sum int) {
	t.Helper()
	got := regexp.MustCompile(fmt.Sprintf(`rank \d+ of %d: the sum is %d\b`, ranks, sum)).FindAllString(log, -1)
	if len(got) != ranks {
		t.Errorf("%d of %d ranks printed the sum:\n%s", len(got), ranks, log)
	}
}

func TestKubernetes(t *testing.T) {
	w := start(t, 2)
	w.kubectl(t, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	t.Run("kubexec", w.kubexec)
	w.kubectl(t, "label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
	t.Run("restricted", w.restricted)
	t.Run("chart", w.chart)
	t.Run("pods", w.pods)
	t.Run("job", w.job)
	t.Run("neighbour", w.neighbour)
	t.Run("mpijob", w.mpiJob)
	t.Run("mpijob as others", w.mpiJobAs)
	t.Run("failed mpijob", w.failedMPIJob)
	t.Run("operators", w.operators)
	t.Run("lost node", w.lostNode)
}

// The namespace takes no pod that does not meet the standard which the examples meet.
func (w *world) restricted(t *testing.T) {
	out, err := w.Kubectl(t.Context(), "run", "root", "--image=gorun-example", "--restart=Never", "--", "true")
	if err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("%v: %s", err, out)
	}
}

// The commands of examples/kubernetes/README.md, without an operator.
func (w *world) job(t *testing.T) {
	w.startJob(t, "job.yaml")
	succeeded, log := w.ended(t, "job/train", clientPod)
	if !succeeded {
		t.Errorf("the job failed:\n%s", log)
	}
	sums(t, log, 6, 15)
	w.endJob(t)
}

// A pod of another job in the namespace gets into no pod of this one: it has not its key, and its
// service account may read no Secret.
func (w *world) neighbour(t *testing.T) {
	long := filepath.Join(t.TempDir(), "job.yaml")
	text := strings.Replace(w.example(t, "job.yaml"), "--wdir / /usr/local/bin/allreduce", "--wdir / sleep 600", 1)
	if err := os.WriteFile(long, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.startJob(t, long)
	defer w.endJob(t)
	w.await(t, "the job's agents", func() bool {
		pod, _ := w.Kubectl(t.Context(), "get", "pods", "-l", clientPod, "-o", "name")
		name := strings.TrimSpace(pod)
		out, _ := w.Kubectl(t.Context(), "exec", name, "-c", "train", "--", "pgrep", "-c", "sleep")
		return name != "" && strings.HasPrefix(out, "2")
	})
	w.apply(t, neighbour)
	w.await(t, "the neighbour's end", func() bool {
		phase, _ := w.Kubectl(t.Context(), "get", "pod", "neighbour", "-o", "jsonpath={.status.phase}")
		return phase == "Succeeded" || phase == "Failed"
	})
	log := w.kubectl(t, "logs", "neighbour")
	if strings.Count(log, "Permission denied (publickey)") != 2 || strings.Contains(log, "let in") {
		t.Errorf("the neighbour saw\n%s", log)
	}
	answer, _ := w.Kubectl(t.Context(), "auth", "can-i", "get", "secrets", "--as=system:serviceaccount:default:default")
	if strings.TrimSpace(answer) != "no" {
		t.Errorf("may the neighbour read Secrets: %s", answer)
	}
	w.kubectl(t, "delete", "pod", "neighbour", "--grace-period=1")
}

// neighbour tries to log in at two pods of the job train, with a key of its own.
const neighbour = `
apiVersion: v1
kind: Pod
metadata:
  name: neighbour
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: neighbour
      image: gorun-example
      imagePullPolicy: IfNotPresent
      command:
        - /bin/sh
        - -c
        - |
          ssh-keygen -q -t ed25519 -N '' -f /tmp/key
          for host in train-1.train train-2.train; do
            ssh -o BatchMode=yes -o StrictHostKeyChecking=no -i /tmp/key $host echo let in 2>&1
          done
          true
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// startJob types the commands that examples/kubernetes/README.md has for a Job without an operator,
// with the file job in the place of its manifest.
func (w *world) startJob(t *testing.T, job string) {
	t.Helper()
	dir := t.TempDir()
	readme := w.example(t, "README.md")
	_, commands, _ := strings.Cut(readme, "## Without")
	if filepath.IsAbs(job) {
		commands = strings.Replace(commands, "examples/kubernetes/job.yaml", job, 1)
	}
	for _, line := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(commands, -1) {
		if strings.HasPrefix(line[1], "kubectl logs") {
			continue
		}
		cmd := w.Command(t.Context(), "sh", "-c", "cd "+dir+" && "+line[1])
		if err := os.MkdirAll(filepath.Join(dir, "examples"), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join(w.bin, "../examples/kubernetes"), filepath.Join(dir, "examples/kubernetes"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line[1], err, out)
		}
	}
}

func (w *world) endJob(t *testing.T) {
	t.Helper()
	w.kubectl(t, "delete", "-f", filepath.Join(w.bin, "../examples/kubernetes/job.yaml"), "--wait", "--grace-period=1")
	w.kubectl(t, "delete", "secret", "train-client", "train-server")
}

func (w *world) mpiJob(t *testing.T) {
	w.apply(t, w.example(t, "mpijob.yaml"))
	succeeded, log := w.ended(t, "mpijob/train", "training.kubeflow.org/job-role=launcher")
	if !succeeded {
		t.Errorf("the job failed:\n%s", log)
	}
	sums(t, log, 4, 6)
	w.kubectl(t, "delete", "mpijob/train", "--wait")
}

// Jobs made for other launchers run with gorun under their names, with words of their documents.
func (w *world) mpiJobAs(t *testing.T) {
	const options = "-bind-to none -map-by slot -mca pml ob1 -mca btl ^openib"
	for _, tc := range []struct{ name, words, want string }{
		{"mpirun", "--allow-run-as-root -np 2 -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH " + options +
			" /usr/local/bin/allreduce", "rank 1 of 2: the sum is 1\n"},
		{"mpiexec", "-np 3 --hostfile /etc/mpi/hostfile --allow-run-as-root --display-map --tag-output " +
			"--timestamp-output -mca btl_tcp_if_exclude lo,docker0 --mca plm_rsh_no_tree_spawn 1 " + options +
			" sh -c 'NCCL_DEBUG=INFO /usr/local/bin/allreduce'", "<stdout>:rank 2 of 3: the sum is 3\n"},
		{"mpiexec.hydra", "-n 4 /usr/local/bin/mnist --epochs 2", "rank 3 of 4 on train-worker-1"},
	} {
		manifest := strings.Replace(w.example(t, "mpijob.yaml"), "command: [gorun]", "command: [/bin/sh, -c]", 1)
		manifest = strings.Replace(manifest, "env:\n", "env:\n"+
			"                - {name: GORUN_HOST_KEYS, value: accept-new}\n"+
			"                - {name: GORUN_WDIR, value: /}\n", 1)
		line := "ln -s /usr/local/bin/gorun /tmp/" + tc.name + " && exec /tmp/" + tc.name + " " + tc.words
		argument := regexp.MustCompile(`args: \[.*\]`)
		manifest = argument.ReplaceAllString(manifest, fmt.Sprintf("args: [%q]", line))
		w.apply(t, manifest)
		succeeded, log := w.ended(t, "mpijob/train", "training.kubeflow.org/job-role=launcher")
		if !succeeded || !strings.Contains(log, tc.want) {
			t.Errorf("%s: succeeded %v, want %q in\n%s", line, succeeded, tc.want, log)
		}
		w.kubectl(t, "delete", "mpijob/train", "--wait")
	}
}

// A node that is lost ends the job at once, and the launcher says which host was lost.
func (w *world) lostNode(t *testing.T) {
	manifest := strings.Replace(w.example(t, "mpijob.yaml"), "/usr/local/bin/allreduce]",
		`/bin/sh, -c, 'echo runs; sleep 600']`, 1)
	for _, node := range []string{"node1", "node2"} { // of the launcher, of the workers
		manifest = strings.Replace(manifest, "          enableServiceLinks: false\n",
			"          enableServiceLinks: false \n          nodeName: "+node+"\n", 1)
	}
	// A pod that names its node is refused where others have left too little of the processors.
	manifest = strings.Replace(manifest, `cpu: "1"`, "cpu: 100m", 1)
	w.apply(t, manifest)
	const launcher = "training.kubeflow.org/job-role=launcher"
	w.await(t, "ranks", func() bool {
		log, _ := w.Kubectl(t.Context(), "logs", "-l", launcher, "--tail=-1")
		return strings.Count(log, "runs") == 4
	})
	pid, err := w.Node(2)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := w.Command(t.Context(), "kill", "-KILL", fmt.Sprint(pid)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	succeeded, log := w.ended(t, "mpijob/train", launcher)
	code := w.kubectl(t, "get", "pods", "-l", launcher, "-o",
		"jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}")
	if succeeded || code != "125" || !strings.Contains(log, "train-worker-") {
		t.Errorf("succeeded %v, exit code %s:\n%s", succeeded, code, log)
	}
}

// A failed job keeps its log and its exit code.
func (w *world) failedMPIJob(t *testing.T) {
	w.apply(t, strings.Replace(w.example(t, "mpijob.yaml"), "/usr/local/bin/allreduce]",
		`/bin/sh, -c, 'echo "no data" >&2; exit 3']`, 1))
	succeeded, log := w.ended(t, "mpijob/train", "training.kubeflow.org/job-role=launcher")
	if succeeded || !strings.Contains(log, "no data") || !strings.Contains(log, "exited with code 3") {
		t.Errorf("succeeded: %v, log:\n%s", succeeded, log)
	}
	code := w.kubectl(t, "get", "pods", "-l", "training.kubeflow.org/job-role=launcher", "-o",
		"jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}")
	if code != "3" {
		t.Errorf("exit code %q", code)
	}
	w.kubectl(t, "delete", "mpijob/train", "--wait")
}

// gorun on this machine reaches pods by kubectl exec.
func (w *world) kubexec(t *testing.T) {
	for _, name := range []string{"worker-0", "worker-1"} {
		w.kubectl(t, "run", name, "--image=gorun-example", "--image-pull-policy=IfNotPresent", "--restart=Never", "--",
			"sleep", "1000")
	}
	w.kubectl(t, "wait", "--for=condition=Ready", "pod/worker-0", "pod/worker-1", "--timeout=120s")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	run := func(args ...string) (string, int) {
		cmd := w.Command(ctx, append([]string{filepath.Join(w.bin, "gorun"), "-H", "worker-0:2,worker-1:2",
			"--launcher", "kubexec", "--wdir", "/"}, args...)...)
		var out bytes.Buffer
		cmd.Stdout = &out
		cmd.Stderr = &out
		err := cmd.Run()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	log, code := run("/usr/local/bin/allreduce")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	sums(t, log, 4, 6)
	if log, code := run("sh", "-c", `[ $RANK != 2 ] || exit 7; sleep 60`); code != 7 ||
		!strings.Contains(log, "rank 2 on worker-1 exited with code 7") {
		t.Errorf("exit code %d:\n%s", code, log)
	}
	w.kubectl(t, "delete", "pod", "worker-0", "worker-1", "--grace-period=1")
}
