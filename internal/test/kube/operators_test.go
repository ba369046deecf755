package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	trainPods     = "batch.kubernetes.io/job-name=train"
	clientPod     = trainPods + ",batch.kubernetes.io/job-completion-index=0"
	launcherPod   = "training.kubeflow.org/job-role=launcher"
	exampleImage  = "docker.io/library/gorun-example:latest"
	trapsTERM     = `/bin/sh -c 'trap "sleep 1; echo rank \$RANK saved; exit 0" TERM; echo runs; while :; do sleep 0.1; done'`
	jobsProgram   = "/usr/local/bin/allreduce"
	mpiJobProgram = "/usr/local/bin/allreduce]"
)

// operators runs beside one another, each in a namespace of its own, what operators do to jobs.
func (w *world) operators(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(*world, *testing.T)
	}{
		{"folder", (*world).folder},
		{"deadline", (*world).deadline},
		{"suspend", (*world).suspend},
		{"suspend-mpijob", (*world).suspendMPIJob},
		{"memory", (*world).memory},
		{"late-image", (*world).lateImage},
		{"gang", (*world).gang},
		{"backoff-limit", (*world).backoffLimit},
		{"launcher-deleted", func(w *world, t *testing.T) { w.rescheduled(t, w.deletePod) }},
		{"launcher-evicted", func(w *world, t *testing.T) { w.rescheduled(t, w.evict) }},
		{"server-evicted", (*world).serverEvicted},
		{"worker-evicted", (*world).workerEvicted},
		{"storage", (*world).storage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(w.in(t, tc.name), t)
		})
	}
}

// in returns the same cluster, in which kubectl uses a new restricted namespace that ends with the
// test.
func (w *world) in(t *testing.T, namespace string) *world {
	t.Helper()
	w.kubectl(t, "create", "namespace", namespace)
	w.kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	config, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	apart := *w.Cluster
	apart.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(apart.Kubeconfig, config, 0o600); err != nil {
		t.Fatal(err)
	}
	n := &world{&apart, t, w.bin}
	n.kubectl(t, "config", "set-context", "--current", "--namespace="+namespace)
	n.kubectl(t, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	return n
}

// variant writes a manifest of examples/kubernetes with changes, each an old text and a new one.
// Its pods request little, so that several jobs run at one time.
func (w *world) variant(t *testing.T, name string, changes ...string) (file string) {
	t.Helper()
	text := w.example(t, name)
	changes = append(changes, `cpu: "1", memory: 256Mi`, `cpu: 10m, memory: 16Mi`)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s has no %q", name, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	file = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// follow keeps the log of a pod, also after the pod has ended.
func (w *world) follow(t *testing.T, pod string) (read func() string) {
	t.Helper()
	w.await(t, "the log of "+pod, func() bool {
		_, err := w.Kubectl(t.Context(), "logs", "-l", pod)
		return err == nil && w.phase(t, pod) == "Running"
	})
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := w.Command(t.Context(), "kubectl", "logs", "-f", "-l", pod, "--tail=-1")
	cmd.Stdout = file
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return func() string {
		text, _ := os.ReadFile(file.Name())
		return string(text)
	}
}

// phase returns the phases of pods.
func (w *world) phase(t *testing.T, pods string) string {
	phase, _ := w.Kubectl(t.Context(), "get", "pods", "-l", pods, "-o", "jsonpath={.items[*].status.phase}")
	return phase
}

// A job file and a folder of code become a running job, its log and a line in a list, as FfDL's
// "train MANIFEST FOLDER" and "list" do it, without an operator.
func (w *world) folder(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(w.bin, "../examples/jobs"))); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(folder, "train.sh")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	waits := string(text) + "until [ -e /tmp/end ]; do sleep 0.1; done\n"
	if err := os.WriteFile(script, []byte(waits), 0o755); err != nil {
		t.Fatal(err)
	}
	w.kubectl(t, "create", "configmap", "code", "--from-file="+folder)
	w.startJob(t, w.variant(t, "job.yaml", "--wdir / "+jobsProgram, "--name digits --config-file /code/train.yaml",
		"            - {name: tmp, mountPath: /tmp}\n",
		"            - {name: tmp, mountPath: /tmp}\n            - {name: code, mountPath: /code}\n",
		"        - {name: tmp, emptyDir: {}}\n",
		"        - {name: tmp, emptyDir: {}}\n        - {name: code, configMap: {name: code, defaultMode: 0555}}\n"))
	read := w.follow(t, clientPod)
	lines := regexp.MustCompile(`rank \d of 6 on train-\d(\.train)?: 3 epochs at 0\.10 on /var/lib/train, model a b`)
	w.await(t, "six ranks", func() bool { return len(lines.FindAllString(read(), -1)) == 6 })
	pods := strings.Fields(w.kubectl(t, "get", "pods", "-l", trainPods, "-o", "name", "--sort-by=.metadata.name"))
	list := w.kubectl(t, "exec", pods[0], "-c", "train", "--", "gorun", "ps")
	if !regexp.MustCompile(`digits +running +6/6 +train-0,train-\S+ .*train\.sh`).MatchString(list) {
		t.Errorf("gorun ps:\n%s", list)
	}
	if jobs := w.kubectl(t, "get", "jobs"); !regexp.MustCompile(`train +Running`).MatchString(jobs) {
		t.Errorf("kubectl get jobs:\n%s", jobs)
	}
	for _, pod := range pods {
		w.kubectl(t, "exec", pod, "-c", "train", "--", "touch", "/tmp/end")
	}
	if succeeded, log := w.ended(t, "job/train", clientPod); !succeeded {
		t.Errorf("the job failed:\n%s", log)
	}
}

// At a Job's deadline all its pods must end. The ranks of all pods have the grace to save their
// work.
func (w *world) deadline(t *testing.T) {
	w.startJob(t, w.variant(t, "job.yaml", jobsProgram, trapsTERM))
	read := w.running(t, clientPod, 6)
	w.kubectl(t, "patch", "job", "train", "--type=merge", "-p", `{"spec": {"activeDeadlineSeconds": 1}}`)
	w.await(t, "the end of the pods", func() bool { return w.phase(t, "") == "" })
	allSaved(t, read(), 6)
	why := w.kubectl(t, "get", "job/train", "-o", "jsonpath={.status.conditions[*].reason}")
	if !strings.Contains(why, "DeadlineExceeded") {
		t.Errorf("the job ended by %s", why)
	}
}

// allSaved checks the log of a job whose pods were told to end.
func allSaved(t *testing.T, log string, ranks int) {
	t.Helper()
	if n := strings.Count(log, "saved\n"); n != ranks {
		t.Errorf("%d of %d ranks saved:\n%s", n, ranks, log)
	}
}

// A suspended job ends its pods, whose ranks save their work, and a resumed one runs anew.
func (w *world) suspend(t *testing.T) {
	w.startJob(t, w.variant(t, "job.yaml", jobsProgram, trapsTERM))
	w.suspendAndResume(t, "job", clientPod, 6, `{"spec": {"suspend": %v}}`)
}

func (w *world) suspendMPIJob(t *testing.T) {
	const program = `/bin/sh, -c, 'trap "sleep 1; echo saved; exit 0" TERM; echo runs; while :; do sleep 0.1; done']`
	w.kubectl(t, "apply", "-f", w.variant(t, "mpijob.yaml", mpiJobProgram, program))
	w.suspendAndResume(t, "mpijob", launcherPod, 4, `{"spec": {"runPolicy": {"suspend": %v}}}`)
}

func (w *world) suspendAndResume(t *testing.T, kind, pod string, ranks int, patch string) {
	t.Helper()
	read := w.running(t, pod, ranks)
	w.kubectl(t, "patch", kind, "train", "--type=merge", "-p", fmt.Sprintf(patch, true))
	w.await(t, "the end of the pods", func() bool { return w.phase(t, "") == "" })
	allSaved(t, read(), ranks)
	w.kubectl(t, "patch", kind, "train", "--type=merge", "-p", fmt.Sprintf(patch, false))
	w.running(t, pod, ranks)
	w.kubectl(t, "delete", kind, "train", "--wait=false")
}

// running waits until ranks have printed "runs", and keeps the log.
func (w *world) running(t *testing.T, pod string, ranks int) (read func() string) {
	t.Helper()
	read = w.follow(t, pod)
	w.await(t, "the ranks", func() bool { return strings.Count(read(), "runs\n") == ranks })
	return read
}

// A rank that uses more memory than its pod may is named with the reason.
func (w *world) memory(t *testing.T) {
	w.startJob(t, w.variant(t, "job.yaml", jobsProgram, `/bin/sh -c '[ $RANK != 2 ] || exec tail /dev/zero; sleep 600'`,
		"            requests: {cpu", "            limits: {memory: 128Mi}\n            requests: {cpu"))
	succeeded, log := w.ended(t, "job/train", clientPod)
	const reason = "rank 2 on train-1.train was killed by signal 9 (SIGKILL): " +
		"its cgroup's memory limit of 128 MiB was reached"
	if succeeded || !strings.Contains(log, reason) {
		t.Errorf("succeeded %v:\n%s", succeeded, log)
	}
	if code := w.exitCodes(t, clientPod); code != "137" {
		t.Errorf("exit code %s", code)
	}
}

// exitCodes returns those of the first containers of pods, the oldest first.
func (w *world) exitCodes(t *testing.T, pods string) string {
	t.Helper()
	return w.kubectl(t, "get", "pods", "-l", pods, "--sort-by=.metadata.creationTimestamp", "-o",
		"jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}")
}

// Workers whose image comes late delay the job, but do not fail it.
func (w *world) lateImage(t *testing.T) {
	manifest := w.variant(t, "mpijob.yaml", "worker\n              image: gorun-example",
		"worker\n              image: gorun-late")
	w.kubectl(t, "apply", "-f", manifest)
	const workers = "training.kubeflow.org/job-role=worker"
	w.await(t, "workers without an image", func() bool {
		why, _ := w.Kubectl(t.Context(), "get", "pods", "-l", workers, "-o",
			"jsonpath={.items[*].status.containerStatuses[0].state.waiting.reason}")
		return strings.Count(why, "Image") == 2 && w.phase(t, launcherPod) == "Running"
	})
	for _, node := range []int{1, 2} {
		w.onNode(t, node, "ctr", "--namespace", "k8s.io", "image", "tag", exampleImage,
			strings.Replace(exampleImage, "example", "late", 1))
	}
	succeeded, log := w.ended(t, "mpijob/train", launcherPod)
	if !succeeded {
		t.Errorf("the job failed:\n%s", log)
	}
	sums(t, log, 4, 6)
}

// onNode runs a command of a node's programs on it.
func (w *world) onNode(t *testing.T, number int, argv ...string) {
	t.Helper()
	pid, err := w.Node(number)
	if err != nil {
		t.Fatal(err)
	}
	argv[0] = filepath.Join(parts(t), "root/usr/bin", argv[0])
	enter := []string{"nsenter", "--target", fmt.Sprint(pid), "--mount", "--net", "--pid", "--"}
	if out, err := w.Command(t.Context(), append(enter, argv...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}

// firstTime is the program of an MPIJob whose ranks do something else in their first run.
func firstTime(first string) string {
	return `/bin/sh, -c, 'if [ ! -e /tmp/ran$RANK ]; then touch /tmp/ran$RANK; echo first; ` + first +
		`; fi; exec /usr/local/bin/allreduce']`
}

// A failed launcher is replaced as often as backoffLimit allows, and its log and exit code stay.
func (w *world) backoffLimit(t *testing.T) {
	w.kubectl(t, "apply", "-f", w.variant(t, "mpijob.yaml", mpiJobProgram, firstTime("sleep 1; exit 3"),
		"backoffLimit: 0", "backoffLimit: 2"))
	succeeded, log := w.ended(t, "mpijob/train", launcherPod)
	codes := w.exitCodes(t, launcherPod)
	if !succeeded || !strings.HasPrefix(codes, "3 ") || !strings.HasSuffix(codes, " 0") {
		t.Errorf("succeeded %v, exit codes %s:\n%s", succeeded, codes, log)
	}
	sums(t, log, 4, 6)
}

// A launcher's pod that must end is replaced, and the new one runs the job on the same workers.
func (w *world) rescheduled(t *testing.T, end func(t *testing.T, pod string)) {
	w.kubectl(t, "apply", "-f", w.variant(t, "mpijob.yaml", mpiJobProgram, firstTime("sleep 600"), "backoffLimit: 0",
		"backoffLimit: 2"))
	read := w.follow(t, launcherPod)
	w.await(t, "four ranks", func() bool { return strings.Count(read(), "first\n") == 4 })
	end(t, w.podName(t, launcherPod))
	succeeded, log := w.ended(t, "mpijob/train", launcherPod)
	if !succeeded || !strings.Contains(read(), "stopping the job (terminated)") {
		t.Errorf("succeeded %v; the first said\n%s", succeeded, read())
	}
	sums(t, log, 4, 6)
}

// podName returns the name of the only pod with these labels.
func (w *world) podName(t *testing.T, labels string) string {
	t.Helper()
	return w.kubectl(t, "get", "pods", "-l", labels, "-o", "jsonpath={.items[0].metadata.name}")
}

func (w *world) deletePod(t *testing.T, pod string) {
	t.Helper()
	w.kubectl(t, "delete", "pod", pod)
}

// evict asks for the end of a pod as kubectl drain does.
func (w *world) evict(t *testing.T, pod string) {
	t.Helper()
	if out, err := w.tryEvict(t, pod); err != nil {
		t.Fatal(out)
	}
}

func (w *world) tryEvict(t *testing.T, pod string) (said string, err error) {
	t.Helper()
	namespace := strings.TrimSpace(w.kubectl(t, "config", "view", "--minify", "-o", "jsonpath={..namespace}"))
	cmd := w.Command(t.Context(), "kubectl", "create", "-f", "-", "--raw",
		"/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction")
	cmd.Stdin = strings.NewReader(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "` + pod +
		`"}, "deleteOptions": {"gracePeriodSeconds": 10}}`)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A server's pod that is evicted ends its Job, and all ranks save their work. A disruption budget
// that the eviction would violate keeps the pod.
func (w *world) serverEvicted(t *testing.T) {
	w.startJob(t, w.variant(t, "job.yaml", jobsProgram, trapsTERM))
	read := w.running(t, clientPod, 6)
	w.apply(t, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: train}
spec: {minAvailable: 3, selector: {matchLabels: {batch.kubernetes.io/job-name: train}}}
`)
	server := w.podName(t, trainPods+",batch.kubernetes.io/job-completion-index=1")
	w.await(t, "a budget that is counted", func() bool {
		allowed, _ := w.Kubectl(t.Context(), "get", "poddisruptionbudget", "train", "-o",
			"jsonpath={.status.disruptionsAllowed} of {.status.currentHealthy}")
		return allowed == "0 of 3"
	})
	said, err := w.tryEvict(t, server)
	if err == nil || !strings.Contains(said, "violate the pod's disruption budget") {
		t.Errorf("the budget did not keep the pod: %s", said)
	}
	w.kubectl(t, "delete", "poddisruptionbudget", "train")
	w.evict(t, server)
	w.await(t, "the end of the pods", func() bool { return w.phase(t, "") == "" })
	allSaved(t, read(), 6)
}

// An MPIJob's ranks go on as long as the pod of an evicted worker may. Then its host is lost, and
// the job ends.
func (w *world) workerEvicted(t *testing.T) {
	const program = `/bin/sh, -c, 'echo runs; sleep 600']`
	w.kubectl(t, "apply", "-f", w.variant(t, "mpijob.yaml", mpiJobProgram, program))
	w.running(t, launcherPod, 4)
	w.evict(t, "train-worker-1")
	succeeded, log := w.ended(t, "mpijob/train", launcherPod)
	if code := w.exitCodes(t, launcherPod); succeeded || code != "125" || !strings.Contains(log, "train-worker-1") {
		t.Errorf("succeeded %v, exit code %s:\n%s", succeeded, code, log)
	}
}

// A host's pod that kubelet evicts ends the job. gorun says which it was and why: at once if the
// API server knows it by then, or on a line of its own later.
func (w *world) storage(t *testing.T) {
	for _, name := range []string{"worker-0", "worker-1"} {
		w.apply(t, strings.ReplaceAll(limitedPod, "{name}", name))
	}
	w.kubectl(t, "wait", "--for=condition=Ready", "pod", "-l", "app=limited", "--timeout=120s")
	cmd := w.Command(t.Context(), filepath.Join(w.bin, "gorun"), "--hosts-from-pods", "app=limited", "--launcher",
		"kubexec", "--wdir", "/", "sh", "-c", "[ $RANK = 0 ] || head -c 100M /dev/zero >/tmp/filled; sleep 600")
	out, _ := cmd.CombinedOutput()
	lost := regexp.MustCompile(`host worker-1: .*\(pod worker-1 on node node[12]`)
	why := regexp.MustCompile(`pod worker-1 on node node[12]: Failed: Evicted: .*storage`)
	if cmd.ProcessState.ExitCode() != 125 || !lost.Match(out) || !why.Match(out) {
		t.Errorf("exit code %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}

// limitedPod may use little storage. Its program does not end by SIGTERM: kubelet keeps the reason
// of an eviction only of a pod that failed.
const limitedPod = `
apiVersion: v1
kind: Pod
metadata: {name: "{name}", labels: {app: limited}}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: worker
      image: gorun-example
      imagePullPolicy: IfNotPresent
      command: [sleep, "1000"]
      resources: {limits: {ephemeral-storage: 64Mi}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// A job whose pods are a gang gets places for all of them or for none.
func (w *world) gang(t *testing.T) {
	const places = `[{"op": "add", "path": "/status/capacity/gorun.test~1place", "value": "%d"}]`
	patch := func(node string, n int) {
		w.kubectl(t, "patch", "node", node, "--subresource=status", "--type=json", "-p", fmt.Sprintf(places, n))
	}
	patch("node1", 2)
	w.apply(t, `
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
`)
	w.startJob(t, w.variant(t, "job.yaml", "      subdomain: train\n",
		"      subdomain: train\n      schedulingGroup: {podGroupName: train}\n",
		"            requests: {cpu", "            limits: {gorun.test/place: 1}\n            requests: {cpu"))
	w.await(t, "three pods that get no place", func() bool {
		why, _ := w.Kubectl(t.Context(), "get", "pods", "-l", trainPods, "-o",
			`jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].reason}`)
		return why == "Unschedulable Unschedulable Unschedulable"
	})
	patch("node2", 1)
	succeeded, log := w.ended(t, "job/train", clientPod)
	if !succeeded {
		t.Errorf("the job failed:\n%s", log)
	}
	sums(t, log, 6, 15)
}
