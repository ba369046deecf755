package hosts

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/kube"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

func TestPodNames(t *testing.T) {
	pod := kube.Pod{Name: "w-0", Host: "w-0.train", IP: "10.1.0.7"}
	bare := kube.Pod{Name: "w-0", IP: "10.1.0.7"}
	like := kube.Pod{Name: "x", Host: "w-0.train", IP: "10.1.0.8"}
	own := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.1.0.7")}
	for _, tc := range []struct {
		name   string
		naming podNaming
		pod    kube.Pod
		want   string
	}{
		{"kubectl", podNaming{namespace: "a", kubexec: true}, pod, "w-0"},
		{"outside the cluster", podNaming{namespace: "a"}, pod, "10.1.0.7"},
		{"same namespace", podNaming{namespace: "a", own: "a", hostname: "d"}, pod, "w-0.train"},
		{"another namespace", podNaming{namespace: "a", own: "b", hostname: "w-0"}, pod, "w-0.train.a"},
		{"without a service", podNaming{namespace: "a", own: "a", hostname: "d"}, bare, "10.1.0.7"},
		{"this pod", podNaming{"a", "a", "w-0", own, false}, pod, "w-0"},
		{"this pod, by kubectl", podNaming{"a", "a", "w-0", own, true}, bare, "w-0"},
		{"another pod of this hostname", podNaming{"a", "a", "w-0", own, false}, like, "w-0.train"},
	} {
		check.Equal(t, tc.naming.of(tc.pod), tc.want, tc.name)
	}
}

// A pod takes no part whose name would make its ranks run on this machine, unless it is this pod.
func TestPodsNamedLikeThisMachine(t *testing.T) {
	pods := []kube.Pod{{Name: "localhost"}, {Name: "127.0.0.1"}, {Name: "laptop", IP: "10.1.0.7"},
		{Name: "laptop.x", IP: "10.1.0.8"}, {Name: "w-0", IP: "10.1.0.9"}}
	own := []netip.Addr{netip.MustParseAddr("10.1.0.7")}
	for want, naming := range map[string]podNaming{
		"laptop.x w-0":               {"a", "", "laptop", own, true},
		"laptop laptop.x w-0":        {"a", "a", "laptop", own, true},
		"10.1.0.7 10.1.0.8 10.1.0.9": {"a", "a", "laptop", nil, false},
	} {
		p := &Pods{naming: naming}
		var got []string
		for _, h := range p.hosts(pods, func(kube.Pod) bool { return true }) {
			got = append(got, h.Name)
		}
		check.Equal(t, strings.Join(got, " "), want, naming)
	}
}

// podServer answers with the lists of pods in turn, and goes on with the last. It returns the
// kubeconfig for it.
func podServer(t *testing.T, lists ...string) (kubeconfig string) {
	t.Helper()
	var asked atomic.Int32
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/namespaces/nowhere":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
		default:
			n := min(int(asked.Add(1)), len(lists))
			fmt.Fprintf(w, `{"metadata": {"resourceVersion": "1"}, "items": [%s]}`, lists[n-1])
		}
	})
}

// serve returns the kubeconfig for an API server.
func serve(t *testing.T, handler http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: ddp}}]
current-context: x
`, s.URL, base64.StdEncoding.EncodeToString(ca))
	must.OK(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return kubeconfig
}

// listed is a pod of a list. A pod without a node is not ready.
func listed(name, node, limits string) string {
	ready := "False"
	if node != "" {
		ready = "True"
	}
	return fmt.Sprintf(`{"metadata": {"name": %q, "uid": %[1]q}, "spec": {"nodeName": %q, "containers": [{"resources": `+
		`{"limits": {%s}}}]}, "status": {"phase": "Running", "podIP": "10.1.0.7", "conditions": [{"type": "Ready", `+
		`"status": %q, "message": "no answer"}]}}`, name, node, limits, ready)
}

func TestFindPods(t *testing.T) {
	both := listed("w-1", "n2", "") + "," + listed("w-0", "n1", `"nvidia.com/gpu": "4"`)
	half := listed("w-0", "n1", "") + "," + listed("w-1", "", "")
	const ended = `{"metadata": {"name": "w-0"}, "status": {"phase": "Failed", "reason": "Evicted"}}`
	for _, tc := range []struct {
		name       string
		lists      []string
		change     func(*settings.Options)
		want, hint string // hosts, or the error and its hint
	}{
		{"slots are GPUs", []string{both}, nil, "w-0:4 w-1:1", ""},
		{"one of them", []string{both}, func(o *settings.Options) { o.Hosts = "w-0:2" }, "w-0:2", ""},
		{"ranks for each", []string{both}, func(o *settings.Options) { o.Ppn.N = 3 }, "w-0:3 w-1:3", ""},
		{"waits for the others", []string{half, both}, nil, "w-0:4 w-1:1", ""},
		{"an elastic job does not wait", []string{half}, func(o *settings.Options) { o.Elastic.MinNP = 1 },
			"w-0:1", ""},
		{"one has ended", []string{both + "," + strings.Replace(ended, "w-0", "w-9", 1)}, nil, "w-0:4 w-1:1", ""},
		{"not ready", []string{half}, func(o *settings.Options) { o.StartTimeout = settings.Seconds(time.Millisecond) },
			"w-1: Running: no answer", "kubectl describe pods -n ddp -l 'app=train'"},
		{"none", []string{""}, nil, "no pod in the namespace ddp has these labels", "--show-labels"},
		{"ended", []string{ended}, nil, "all of these pods have ended: w-0: Failed: Evicted", "--show-labels"},
		{"no such namespace", []string{""}, func(o *settings.Options) { o.Namespace = "nowhere" },
			"there is no namespace nowhere", "kubectl get namespaces"},
		{"named like every machine", []string{both + "," + listed("localhost", "n1", "")}, nil,
			"the pod localhost has the name of this machine", "another name"},
		{"named like its address", []string{listed("127.0.0.1", "n1", "")}, nil,
			"the pod 127.0.0.1 has the name of this machine", "another name"},
		{"named like this machine", []string{listed("laptop", "n1", "")}, nil,
			"the pod laptop has the name of this machine", "another name"},
		{"no such pod", []string{both}, func(o *settings.Options) { o.Hosts = "w-3" }, "w-3", "w-0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, o := settings.NewFlags()
			o.Pods = "app=train"
			o.Launcher = "kubexec"
			if tc.change != nil {
				tc.change(o)
			}
			count := func(context.Context, []hostfile.Host, string) ([]int, error) { return nil, nil }
			kubeconfig := podServer(t, tc.lists...)
			finder := Finder{
				Lookup:   func(name string) (string, bool) { return kubeconfig, name == "KUBECONFIG" },
				Hostname: "laptop",
				count:    count,
			}
			p, err := Find(t.Context(), o, finder)
			var got []string
			for _, h := range p.Hosts {
				got = append(got, fmt.Sprintf("%s:%d", h.Name, h.Slots))
			}
			switch {
			case err == nil && strings.Join(got, " ") == tc.want && tc.hint == "":
			case err != nil && tc.hint != "" && strings.Contains(err.Error(), tc.want) &&
				strings.Contains(usage.Hint(err), tc.hint):
			default:
				t.Errorf("%q, %v (%s), want %q, %q", got, err, usage.Hint(err), tc.want, tc.hint)
			}
		})
	}
}

// A pod takes part from when it is ready until it has ended, and is found by its host's name.
func TestPodsStayWhileTheyRun(t *testing.T) {
	ready := listed("w-0", "n1", "")
	busy := strings.Replace(ready, `"True"`, `"False"`, 1)
	later := listed("w-1", "", "")
	ended := strings.Replace(ready, `"Running"`, `"Failed", "reason": "Evicted"`, 1)
	kubeconfig := podServer(t, ready)
	_, o := settings.NewFlags()
	o.Pods = "app=train"
	finder := Finder{Lookup: func(name string) (string, bool) { return kubeconfig, name == "KUBECONFIG" }}
	p := must.Get(finder.findPods(t.Context(), o))(t)
	for _, tc := range []struct{ list, want, where string }{
		{ready, "10.1.0.7", "pod w-0 on node n1"},
		{busy + "," + later, "10.1.0.7", "pod w-0 on node n1: Running: no answer"},
		{ended, "", "pod w-0 on node n1: Failed: Evicted"},
	} {
		access := must.Get(kube.FindAccess(func(string) (string, bool) { return podServer(t, tc.list), true }))(t)
		client := kube.NewClient(access)
		pods, version := must.GetTwo(client.List(t.Context(), "a=b"))(t)
		w := p.Pods.Watch()
		w.watch.Close()
		w.watch = client.Watch("a=b", pods, version)
		hosts, err := w.Hosts(t.Context())
		var got string
		for _, h := range hosts {
			got += h.Name
		}
		check.That(t, err == nil && got == tc.want && w.Where("10.1.0.7") == tc.where,
			"%s\n%q, %v, %q, want %q, %q", tc.list, got, err, w.Where("10.1.0.7"), tc.want, tc.where)
		client.Close()
		w.Close()
	}
}

// Of a pod whose host is lost, the end is told, also if another pod has its name by then.
func TestEndOfPodIsAwaited(t *testing.T) {
	running := listed("w-0", "n1", "")
	evicted := strings.Replace(running, `"Running"`, `"Failed", "reason": "Evicted", "message": "low on memory"`, 1)
	again := strings.Replace(running, `"uid": "w-0"`, `"uid": "another"`, 1)
	for _, tc := range []struct {
		name   string
		events []string
		want   string
	}{
		{"evicted", []string{"MODIFIED " + evicted, "DELETED " + evicted, "ADDED " + again},
			"pod w-0 on node n1: Failed: Evicted: low on memory"},
		{"deleted", []string{"DELETED " + running, "ADDED " + again}, "pod w-0 on node n1: it has been deleted"},
		{"there", []string{"MODIFIED " + running}, ""},
	} {
		lost := make(chan struct{})
		told := make(chan struct{})
		kubeconfig := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				fmt.Fprintf(w, `{"metadata": {"resourceVersion": "1"}, "items": [%s]}`, running)
				return
			}
			<-lost
			for _, event := range tc.events {
				kind, object, _ := strings.Cut(event, " ")
				fmt.Fprintf(w, `{"type": %q, "object": %s}`+"\n", kind, object)
			}
			w.(http.Flusher).Flush()
			close(told)
			<-r.Context().Done()
		})
		_, o := settings.NewFlags()
		o.Pods = "app=train"
		finder := Finder{Lookup: func(name string) (string, bool) { return kubeconfig, name == "KUBECONFIG" }}
		p := must.Get(finder.findPods(t.Context(), o))(t)
		w := p.Pods.Watch()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			close(lost)
			<-told
			if tc.want == "" {
				cancel()
			}
		}()
		check.Equal(t, w.End(ctx, "10.1.0.7"), tc.want, tc.name)
		cancel()
		w.Close()
	}
}
