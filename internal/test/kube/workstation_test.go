package main

import (
	"archive/zip"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/kube/cluster"
)

// mpiArgs are mpirun's words in the command lines of the chart's tutorial.
const mpiArgs = `--mpi-args "--mca orte_keep_fqdn_hostnames t --allow-run-as-root --display-map --tag-output --timestamp-output"`

const discovery = "--host-discovery-script /horovod/generated/discoverHosts.sh "

// elasticProgram is a command of the pods: a stock elastic program in a folder of its own. It ends
// when a rank finds a file "end" there.
const elasticProgram = `bash -c 'mkdir -p /tmp/%[1]s; python /horovod/examples/elastic/pytorch/train.py /tmp/%[1]s'`

// workstation is a namespace with a driver pod and worker pods, as Horovod's Helm chart makes them.
type workstation struct {
	*world
	driver string // name of the driver's pod
}

// A workstation as Horovod's Helm chart makes one, with stock Horovod and gorun for horovodrun,
// runs the lines of the chart's tutorial. Its elastic jobs survive what happens to workers and
// nodes.
func TestWorkstation(t *testing.T) {
	w := start(t, 4, horovodImage(t, parts(t), programs(t)))
	s := w.workstation(t)
	t.Run("horovodrun", s.train)
	t.Run("horovodrun elastic", s.trainElastic)
	t.Run("workers and nodes come and go", s.elastic)
}

//go:embed testdata/workstation.yaml
var workstationManifests string

func (w *world) workstation(t *testing.T) *workstation {
	t.Helper()
	w.kubectl(t, "create", "namespace", "ddp")
	w.kubectl(t, "config", "set-context", "--current", "--namespace=ddp")
	const keys = `ssh-keygen -q -t ed25519 -N '' -C gorun -f id_ed25519 && ssh-keygen -q -t ed25519 -N '' -C gorun -f host_key &&
		cp id_ed25519.pub authorized_keys && printf 'ddp-horovod* %s\n' "$(cat host_key.pub)" >known_hosts &&
		kubectl create secret generic ddp-horovod --from-file=.`
	cmd := w.Command(t.Context(), "sh", "-c", keys)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.apply(t, strings.ReplaceAll(workstationManifests, "{parts}", parts(t)))
	for _, what := range []string{"statefulset/ddp-horovod", "deployment/ddp-horovod-driver"} {
		w.kubectl(t, "rollout", "status", what, "--timeout=180s")
	}
	driver := w.kubectl(t, "get", "pods", "-l", "app=horovod,role=driver", "-o", "name")
	return &workstation{w, strings.TrimPrefix(strings.TrimSpace(driver), "pod/")}
}

// job is a command line that runs in the driver's pod.
type job struct {
	cmd  *exec.Cmd
	log  string // file of its output
	seen int    // how much of the output came before the end of the last epoch that was seen
}

// begin starts a command line as a user types it in a shell of the driver's pod.
func (s *workstation) begin(t *testing.T, line string) *job {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j := &job{cmd: s.Command(t.Context(), "kubectl", "exec", s.driver, "--", "bash", "-c", line), log: file.Name()}
	j.cmd.Stdout = file
	j.cmd.Stderr = file
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = j.cmd.Process.Kill()
		_ = j.cmd.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", line, j.said())
		}
	})
	return j
}

func (j *job) said() string {
	text, _ := os.ReadFile(j.log)
	return string(text)
}

// end waits for the end of a job, which must succeed.
func (j *job) end(t *testing.T) {
	t.Helper()
	if err := j.cmd.Wait(); err != nil {
		t.Fatalf("%v", err)
	}
}

// The tutorial's first line trains on the hosts of the chart's hostfile, the driver among them.
func (s *workstation) train(t *testing.T) {
	j := s.begin(t, "horovodrun -n 4 --hostfile /horovod/generated/hostfile "+mpiArgs+
		" bash -c 'python /horovod/examples/pytorch/pytorch_mnist.py --epochs 1'")
	j.end(t)
	log := j.said()
	accuracies := regexp.MustCompile(`\[1,\d\]<stdout>:rank \d of 4: accuracy (.*)`).FindAllStringSubmatch(log, -1)
	if len(accuracies) != 4 || accuracies[0][1] != accuracies[3][1] {
		t.Errorf("%d ranks printed an accuracy and their weights", len(accuracies))
	}
	for rank, host := range []string{"-driver", "-0", "-1", "-2"} {
		if !regexp.MustCompile(fmt.Sprintf(`gorun:   ddp-horovod%s\S* +1 slot, rank %d\n`, host, rank)).MatchString(log) {
			t.Errorf("the map does not have ddp-horovod%s with rank %d", host, rank)
		}
	}
}

// Its second line finds the hosts by kubectl, whose service account may list pods and nothing else.
func (s *workstation) trainElastic(t *testing.T) {
	hosts := s.kubectl(t, "exec", s.driver, "--", "/horovod/generated/discoverHosts.sh")
	want := "ddp-horovod-0.ddp-horovod:1\nddp-horovod-1.ddp-horovod:1\nddp-horovod-2.ddp-horovod:1\n" + s.driver + ":1\n"
	if hosts != want {
		t.Errorf("discovered\n%swant\n%s", hosts, want)
	}
	const canI = "auth can-i --as=system:serviceaccount:ddp:ddp-horovod "
	for _, denied := range []string{"get secrets", "list secrets", "delete pods", "create pods/exec", "list nodes"} {
		answer, _ := s.Kubectl(t.Context(), strings.Fields(canI+denied)...)
		if !strings.HasSuffix(strings.TrimSpace(answer), "no") {
			t.Errorf("may the driver %s: %s", denied, answer)
		}
	}
	j := s.begin(t, "horovodrun -np 4 --min-np 4 --max-np 4 "+discovery+mpiArgs+" "+fmt.Sprintf(elasticProgram, "four"))
	s.size(t, j, 4)
	s.kubectl(t, "exec", s.driver, "--", "touch", "/tmp/four/end")
	j.end(t)
	if n := strings.Count(j.said(), "<stdout>:done"); n != 4 {
		t.Errorf("%d ranks ended", n)
	}
}

// size waits until all of a number of ranks have begun an epoch of their size, after the epoch of
// the call before. A later epoch may have begun by then: its lines stay for the next call.
func (s *workstation) size(t *testing.T, j *job, ranks int) {
	t.Helper()
	begun := regexp.MustCompile(fmt.Sprintf(`rank \d+ of %d local`, ranks))
	s.await(t, fmt.Sprintf("the epoch of %d ranks", ranks), func() bool {
		lines := begun.FindAllStringIndex(j.said()[j.seen:], ranks)
		if len(lines) < ranks {
			return false
		}
		j.seen += lines[ranks-1][1]
		return true
	})
}

// One elastic job goes on with what is there. Ranks of pods that must end leave at a commit before
// their pod does, and no work is lost.
func (s *workstation) elastic(t *testing.T) {
	s.kubectl(t, "scale", "statefulset", "ddp-horovod", "--replicas=2")
	s.kubectl(t, "wait", "--for=delete", "pod/ddp-horovod-2", "--timeout=60s")
	j := s.begin(t, "horovodrun -np 3 --min-np 1 --max-np 8 "+discovery+mpiArgs+" "+
		fmt.Sprintf(elasticProgram, "scaled"))
	s.size(t, j, 3)
	s.kubectl(t, "scale", "statefulset", "ddp-horovod", "--replicas=4")
	s.size(t, j, 5)
	s.kubectl(t, "scale", "statefulset", "ddp-horovod", "--replicas=3")
	s.size(t, j, 4)
	s.kubectl(t, "delete", "pod", "ddp-horovod-1")
	s.size(t, j, 3)
	s.size(t, j, 4)
	drained := s.nodeOf(t, "ddp-horovod-2")
	workers := s.workersOn(t, drained)
	s.kubectl(t, "drain", drained, "--ignore-daemonsets", "--force", "--delete-emptydir-data")
	s.size(t, j, 4-workers)
	s.size(t, j, 4)
	s.kubectl(t, "uncordon", drained)
	if log := j.said(); strings.Contains(log, "lost") || strings.Contains(log, "exception") {
		t.Error("a rank was lost")
	}

	lost := s.nodeOf(t, "ddp-horovod-0")
	left := 4 - s.workersOn(t, lost)
	s.onMachine(t, "kill", "-KILL", s.init(t, lost))
	s.size(t, j, left)
	for _, worker := range []string{"ddp-horovod-1", "ddp-horovod-2"} {
		cut := s.nodeOf(t, worker)
		if cut == lost {
			continue
		}
		left -= s.workersOn(t, cut)
		s.onMachine(t, "ip", "link", "set", "v"+strings.TrimPrefix(cut, "node"), "down")
		s.size(t, j, left)
		s.await(t, "the end of the ranks on "+cut, func() bool {
			enter := []string{"--target", s.init(t, cut), "--mount", "--pid", "--", "pgrep", "-x", "python3"}
			return s.Command(t.Context(), append([]string{"nsenter"}, enter...)...).Run() != nil
		})
		break
	}
	s.kubectl(t, "exec", s.driver, "--", "touch", "/tmp/scaled/end")
	j.end(t)
}

func (s *workstation) nodeOf(t *testing.T, pod string) string {
	t.Helper()
	return s.kubectl(t, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
}

// workersOn counts the workers of a node.
func (s *workstation) workersOn(t *testing.T, node string) int {
	t.Helper()
	pods := s.kubectl(t, "get", "pods", "-l", "role=worker", "--field-selector=spec.nodeName="+node, "-o", "name")
	return strings.Count(pods, "\n")
}

// init returns the process id of a node's init.
func (s *workstation) init(t *testing.T, node string) string {
	t.Helper()
	number, err := strconv.Atoi(strings.TrimPrefix(node, "node"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := s.Node(number)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(pid)
}

// onMachine runs a command beside the nodes.
func (s *workstation) onMachine(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := s.Command(t.Context(), argv...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}

// horovodImage writes the archive of an image with stock Horovod, gorun under horovodrun's name and
// programs for it. It is the base image's system, but for /usr, which pods take from their node.
func horovodImage(t *testing.T, parts, bin string) (archive string) {
	t.Helper()
	dir := t.TempDir()
	examples := filepath.Join(bin, "../examples")
	elastic := filepath.Join(bin, "../internal/test/e2e/testdata/elastic")
	files := map[string]string{
		"etc/ld.so.cache":                           "/etc/ld.so.cache",
		"opt/bin/gorun":                             filepath.Join(bin, "gorun"),
		"opt/bin/horovodrun":                        filepath.Join(bin, "gorun"),
		"horovod/examples/elastic/pytorch/train.py": filepath.Join(elastic, "train.py"),
		"horovod/examples/pytorch/digits.py":        filepath.Join(examples, "digits.py"),
	}
	text := func(name, text string, mode os.FileMode) {
		files[name] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(files[name], []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	text("opt/bin/python", "#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n", 0o755)
	mnist, err := os.ReadFile(filepath.Join(examples, "pytorch_mnist.py"))
	if err != nil {
		t.Fatal(err)
	}
	text("horovod/examples/pytorch/pytorch_mnist.py",
		strings.Replace(string(mnist), "import gorun.torch as hvd", "import horovod.torch as hvd", 1), 0o644)
	digits, _ := filepath.Glob(filepath.Join(examples, "mnist/data/*.gz"))
	for _, file := range digits {
		files["horovod/examples/pytorch/mnist/data/"+filepath.Base(file)] = file
	}
	for _, file := range unpackHorovod(t, filepath.Join(dir, "wheel")) {
		files["opt/horovod/"+file] = filepath.Join(dir, "wheel", file)
	}
	layer := filepath.Join(dir, "layer.tar")
	archive = filepath.Join(dir, "horovod.tar")
	if err := errors.Join(cluster.WriteLayer(layer, files), cluster.Image{
		Name:    "docker.io/library/horovod:latest",
		User:    "0:0",
		Command: []string{"/bin/sh"},
		Layers:  []string{filepath.Join(parts, "base.tar"), layer},
	}.Write(archive)); err != nil {
		t.Fatal(err)
	}
	return archive
}

// unpackHorovod unpacks the wheel that .ci/horovod has built, and returns its files.
func unpackHorovod(t *testing.T, to string) (files []string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	wheels, _ := filepath.Glob(filepath.Join(cache, "gorun-ci/torch-*/horovod-*.whl"))
	if len(wheels) == 0 {
		skip(t, "there is no Horovod: .ci/horovod builds it, in many minutes")
	}
	wheel, err := zip.OpenReader(wheels[len(wheels)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()
	for _, file := range wheel.File {
		files = append(files, file.Name)
	}
	if err := os.CopyFS(to, wheel); err != nil {
		t.Fatal(err)
	}
	return files
}
