package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// helm runs helm in the cluster.
func (w *world) helm(t *testing.T, args ...string) {
	t.Helper()
	program := filepath.Join(w.Dir, "helm")
	if _, err := os.Stat(program); err != nil {
		build := filepath.Join(w.bin, "../examples/kubernetes/check/helm")
		if out, err := exec.Command(build, program).CombinedOutput(); err != nil {
			t.Fatalf("build helm: %v: %s", err, out)
		}
	}
	cmd := w.Command(t.Context(), append([]string{program, "--namespace", "ddp"}, args...)...)
	cmd.Env = append(cmd.Env, "HELM_CACHE_HOME="+w.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %q: %v: %s", args, err, out)
	}
}

// install installs a release of the chart in the namespace ddp, which takes restricted pods only.
func (w *world) install(t *testing.T, release string, args ...string) {
	t.Helper()
	if _, err := w.Kubectl(t.Context(), "get", "namespace", "ddp"); err != nil {
		w.kubectl(t, "create", "namespace", "ddp")
		w.kubectl(t, "label", "namespace", "ddp", "pod-security.kubernetes.io/enforce=restricted")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "id_rsa")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.helm(t, append([]string{"install", release, filepath.Join(w.bin, "../examples/kubernetes/chart"),
		fmt.Sprintf("--set-file=ssh.hostKey=%s,ssh.hostKeyPub=%[1]s.pub", key)}, args...)...)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := w.Kubectl(ctx, "delete", "-n", "ddp", "--grace-period=1", "--ignore-not-found",
			"job,statefulset,pod,secret,configmap", "-l", "app.kubernetes.io/instance="+release)
		if err != nil {
			t.Error(err)
		}
	})
}

// A driver of the chart runs gorun over its workers, with a volume that all of them mount.
func (w *world) chart(t *testing.T) {
	shared := filepath.Join(w.Dir, "dataset")
	if err := os.Mkdir(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	w.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: dataset}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 10Gi}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: ddp, name: ddp-gorun-dataset}
  hostPath: {path: %s}
`, shared))
	w.install(t, "ddp", "--set=worker.number=2", "--set=datasetPvc.enabled=true", "--set=datasetPvc.storageClassName=",
		"--set=driver.args={gorun --hostfile /horovod/generated/hostfile sh -c 'touch /dataset/$RANK; "+
			"exec /usr/local/bin/allreduce'}")
	var log, state string
	w.await(t, "the end of the driver", func() bool {
		log, _ = w.Kubectl(t.Context(), "logs", "-n", "ddp", "job/ddp-gorun-driver", "--tail=-1")
		state, _ = w.Kubectl(t.Context(), "get", "-n", "ddp", "job/ddp-gorun-driver", "-o",
			`jsonpath={.status.conditions[?(@.status=="True")].type}`)
		return strings.Contains(state, "Complete") || strings.Contains(state, "Failed")
	})
	if !strings.Contains(state, "Complete") {
		t.Errorf("%s:\n%s", state, log)
	}
	sums(t, log, 3, 3)
	for _, rank := range []string{"0", "1", "2"} {
		if _, err := os.Stat(filepath.Join(shared, rank)); err != nil {
			t.Error(err)
		}
	}
}

// log collects the output of a program that runs.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// gorun finds the pods by their labels: in a pod by its service account and over SSH, from outside
// as a command of kubectl. An elastic job follows them.
func (w *world) pods(t *testing.T) {
	// From outside gorun uploads itself.
	w.install(t, "ws", "--set=worker.number=2", "--set=securityContext.readOnlyRootFilesystem=false")
	const workers = "app.kubernetes.io/instance=ws,role=worker"
	w.kubectl(t, "rollout", "status", "-n", "ddp", "statefulset/ws-gorun", "--timeout=120s")
	w.kubectl(t, "wait", "-n", "ddp", "--for=condition=Ready", "pod", "-l", "app.kubernetes.io/instance=ws",
		"--timeout=120s")
	plugins := t.TempDir()
	if err := os.Symlink(filepath.Join(w.bin, "gorun"), filepath.Join(plugins, "kubectl-gorun")); err != nil {
		t.Fatal(err)
	}
	outside := func(args ...string) *exec.Cmd {
		cmd := w.Command(t.Context(), append([]string{"kubectl", "gorun"}, args...)...)
		for i, v := range cmd.Env {
			if path, is := strings.CutPrefix(v, "PATH="); is {
				cmd.Env[i] = "PATH=" + plugins + ":" + path
			}
		}
		return cmd
	}
	inside := func(args ...string) *exec.Cmd {
		return w.Command(t.Context(), append([]string{"kubectl", "exec", "-n", "ddp", "job/ws-gorun-driver", "--",
			"gorun"}, args...)...)
	}
	t.Run("ssh", func(t *testing.T) {
		out, err := inside("--hosts-from-pods", workers, "/usr/local/bin/allreduce").CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		sums(t, string(out), 2, 1)
	})
	t.Run("plugin", func(t *testing.T) {
		out, err := outside("--namespace", "ddp", "--hosts-from-pods", workers, "--slots-per-host", "2", "--wdir", "/",
			"/usr/local/bin/allreduce").CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		sums(t, string(out), 4, 6)
		if out, err := outside("--help").CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "Usage:\n  kubectl gorun ") {
			t.Errorf("%v: %s", err, out)
		}
	})
	w.kubectl(t, "run", "late", "-n", "default", "--image=missing", "--image-pull-policy=Never", "--labels=app=late",
		"--overrides", `{"spec": {"securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": `+
			`{"type": "RuntimeDefault"}}, "containers": [{"name": "late", "image": "missing", "imagePullPolicy": "Never", `+
			`"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`)
	for _, tc := range []struct {
		name string
		cmd  *exec.Cmd
		want []string
	}{
		{"no permission", inside("--hosts-from-pods", "a=b", "--namespace", "default", "true"),
			[]string{"pods is forbidden", "kubectl create role gorun-pods -n default --verb=list,watch",
				"--serviceaccount=ddp:ws-gorun-driver"}},
		{"no such namespace", outside("--namespace", "nowhere", "--hosts-from-pods", "a=b", "true"),
			[]string{"there is no namespace nowhere", "kubectl get namespaces"}},
		{"no such label", outside("--namespace", "ddp", "--hosts-from-pods", "a=b", "true"),
			[]string{"no pod in the namespace ddp has these labels"}},
		{"no selector", outside("--namespace", "ddp", "--hosts-from-pods", "a in b", "true"),
			[]string{"(400)", "a selector is like"}},
		{"not ready", outside("--namespace", "default", "--hosts-from-pods", "app=late", "--start-timeout", "3s",
			"true"),
			[]string{"late: ErrImageNeverPull", "kubectl describe pods -n default -l 'app=late'"}},
	} {
		out, err := tc.cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: it runs: %s", tc.name, out)
		}
		for _, want := range tc.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in %s", tc.name, want, out)
			}
		}
	}
	w.kubectl(t, "delete", "pod", "late", "--grace-period=1", "--wait=false")
	t.Run("elastic", func(t *testing.T) {
		w.follows(t, inside("-np", "2", "--min-np", "1", "--max-np", "3", "--max-restarts", "9", "--hosts-from-pods",
			workers, "sh", "-c", "echo $WORLD_SIZE ranks; until [ -e /tmp/end ]; do sleep 0.2; done"))
	})
}

// follows runs an elastic job while a pod is added, one is deleted and made again, and one fails.
func (w *world) follows(t *testing.T, cmd *exec.Cmd) {
	var said log
	cmd.Stdout = &said
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	count := func(size string) int { return strings.Count(said.String(), size+" ranks\n") }
	w.await(t, "two ranks", func() bool { return count("2") == 2 })
	w.kubectl(t, "scale", "-n", "ddp", "statefulset/ws-gorun", "--replicas=3")
	w.await(t, "three ranks", func() bool { return count("3") == 3 })
	w.kubectl(t, "delete", "pod", "-n", "ddp", "ws-gorun-1", "--wait=false", "--grace-period=20")
	w.await(t, "three ranks again", func() bool { return count("3") == 6 })
	if strings.Contains(said.String(), "lost the connection") {
		t.Errorf("the ranks of a pod that was deleted did not leave in time:\n%s", said.String())
	}
	w.kubectl(t, "exec", "-n", "ddp", "ws-gorun-2", "--", "sh", "-c", "kill 1")
	lost := regexp.MustCompile(`\(pod ws-gorun-2 on node node[12]\b`)
	w.await(t, "the names of pod and node of a lost host", func() bool { return lost.MatchString(said.String()) })
	w.await(t, "the container's next start", func() bool {
		_, err := w.Kubectl(t.Context(), "exec", "-n", "ddp", "ws-gorun-2", "--", "true")
		return err == nil
	})
	for _, name := range []string{"ws-gorun-0", "ws-gorun-1", "ws-gorun-2"} {
		w.kubectl(t, "exec", "-n", "ddp", name, "--", "touch", "/tmp/end")
	}
	if err := <-ended; err != nil {
		t.Errorf("%v:\n%s", err, said.String())
	}
}
