package hosts

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/kube"
	"github.com/gorun/gorun/internal/net/retry"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport"
)

// Pods are the pods that --hosts-from-pods selects, when they were listed.
type Pods struct {
	client   *kube.Client
	selector string
	naming   podNaming
	slots    int // slots of each pod; 0: as many as it has GPUs, at least 1
	list     []kube.Pod
	version  string
}

// podNaming says by which name a pod is reached. It is pure.
type podNaming struct {
	namespace string // namespace of the pods
	own       string // namespace of this pod; "": this process is in none
	hostname  string // name of this machine
	addresses []netip.Addr
	kubexec   bool // pods are reached by kubectl
}

// isThis reports whether a pod is the one that this process is in. Others may have its hostname,
// which a pod chooses, but not its address.
func (n podNaming) isThis(p kube.Pod) bool {
	label, _, _ := strings.Cut(cmp.Or(p.Host, p.Name), ".")
	address, err := netip.ParseAddr(p.IP)
	return n.own == n.namespace && n.hostname == label && err == nil && slices.Contains(n.addresses, address)
}

// isMistaken reports whether a pod would be taken for this machine by its name, which those who may
// create pods choose.
func (n podNaming) isMistaken(p kube.Pod) bool {
	return !n.isThis(p) && transport.IsLocal(hostfile.Host{Name: n.of(p)}, n.hostname)
}

// of returns the name of a pod: that of this machine for this pod itself, the pod's own for
// kubectl, and for SSH that in the cluster's DNS if the pod has one that this process can resolve,
// or else its address.
func (n podNaming) of(p kube.Pod) string {
	switch {
	case n.isThis(p):
		return n.hostname
	case n.kubexec:
		return p.Name
	case p.Host != "" && n.own == n.namespace:
		return p.Host
	case p.Host != "" && n.own != "":
		return p.Host + "." + n.namespace
	}
	return p.IP
}

// hosts returns those of pods that take part. None that would be taken for this machine does.
func (p *Pods) hosts(pods []kube.Pod, takes func(kube.Pod) bool) (hosts []hostfile.Host) {
	for _, pod := range pods {
		if name := p.naming.of(pod); takes(pod) && name != "" && !p.naming.isMistaken(pod) {
			slots := min(cmp.Or(p.slots, pod.GPUs, 1), hostfile.MaxSlots)
			hosts = append(hosts, hostfile.Host{Name: name, Slots: slots})
		}
	}
	return hosts
}

// findPods lists the selected pods. A job that is not elastic waits until all of them are ready.
func (s Finder) findPods(ctx context.Context, o *settings.Options) (Selection, error) {
	access, err := kube.FindAccess(s.Lookup)
	if err != nil {
		return Selection{}, usage.Errorf(usage.Hint(err), "--hosts-from-pods: %w", err)
	}
	naming := podNaming{hostname: s.Hostname, kubexec: o.Method() == "kubexec"}
	if access.InPod {
		naming.own = access.Namespace
		naming.addresses = s.Addresses()
	}
	access.Namespace = cmp.Or(o.Namespace, access.Namespace)
	naming.namespace = access.Namespace
	p := &Pods{
		client:   kube.NewClient(access),
		selector: o.Pods,
		naming:   naming,
		slots:    o.Elastic.SlotsPerHost(),
	}
	defer p.client.Close()
	if err := p.await(ctx, time.Duration(o.StartTimeout), !o.Elastic.Given()); err != nil {
		return Selection{}, usage.Errorf(usage.Hint(err), "--hosts-from-pods %s: %w", o.Pods, err)
	}
	if i := slices.IndexFunc(p.list, naming.isMistaken); i >= 0 {
		return Selection{}, usage.Errorf("give the pod another name, or choose labels that it does not have",
			"--hosts-from-pods %s: the pod %s has the name of this machine, where its ranks would run", o.Pods,
			p.list[i].Name)
	}
	return Selection{
		Hosts:  p.hosts(p.list, func(p kube.Pod) bool { return p.Ready }),
		Source: fmt.Sprintf("pods with the labels %s in the namespace %s", o.Pods, access.Namespace),
		Pods:   p,
	}, nil
}

// await lists the pods, with all until none of them can still become ready, for at most limit; 0 is
// no limit.
func (p *Pods) await(ctx context.Context, limit time.Duration, all bool) (err error) {
	begun := time.Now()
	for {
		if p.list, p.version, err = p.client.List(ctx, p.selector); err != nil {
			return err
		}
		waiting, err := p.judge(ctx)
		switch {
		case err != nil || !all && len(p.list) > 0 || waiting == "":
			return err
		case limit > 0 && time.Since(begun) > limit || !retry.Wait(ctx, time.Second):
			hint := "kubectl describe pods -n " + prose.Quoted(p.naming.namespace) + " -l " + prose.Quoted(p.selector) +
				"; --start-timeout says how long to wait"
			return cmp.Or(context.Cause(ctx), error(usage.Errorf(hint, "not ready after %v: %s",
				time.Since(begun).Round(time.Second), waiting)))
		}
	}
}

// judge returns which pods may still become ready and why they are not, or why there will be no
// host.
func (p *Pods) judge(ctx context.Context) (waiting string, err error) {
	var late, over []string
	for _, pod := range p.list {
		switch {
		case pod.Over:
			over = append(over, pod.Name+": "+pod.Reason)
		case !pod.Ready:
			late = append(late, pod.Name+": "+pod.Reason)
		}
	}
	show := "kubectl get pods -n " + prose.Quoted(p.naming.namespace) + " --show-labels"
	switch {
	case len(p.list) == 0 && !p.client.HasNamespace(ctx):
		return "", usage.Errorf("choose one with --namespace: kubectl get namespaces", "there is no namespace %s",
			p.naming.namespace)
	case len(p.list) == 0:
		return "", usage.Errorf(show, "no pod in the namespace %s has these labels", p.naming.namespace)
	case len(over) == len(p.list):
		return "", usage.Errorf(show, "all of these pods have ended: %s", prose.List(over))
	}
	return strings.Join(late, "; "), nil
}

// PodWatch follows pods while a job runs. It is safe for concurrent use.
type PodWatch struct {
	pods  *Pods
	watch *kube.Watch

	mu     sync.Mutex
	joined map[string]bool   // by UID: pods that have been ready
	names  map[string]string // by host: its latest pod
}

// Watch follows the pods, until Close.
func (p *Pods) Watch() *PodWatch {
	w := &PodWatch{
		pods:   p,
		watch:  p.client.Watch(p.selector, p.list, p.version),
		joined: map[string]bool{},
		names:  map[string]string{},
	}
	w.join(p.list)
	return w
}

// Close ends the watch.
func (w *PodWatch) Close() {
	w.watch.Close()
	w.pods.client.Close()
}

// Hosts returns the hosts as they are now, or why they are not known. A pod takes part from when it
// is ready until it is deleted or has ended: a busy one may fail its readiness probe.
func (w *PodWatch) Hosts(context.Context) ([]hostfile.Host, error) {
	pods, err := w.watch.Pods()
	if err != nil {
		return nil, fmt.Errorf("the pods with the labels %s: %w", w.pods.selector, err)
	}
	w.join(pods)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods.hosts(pods, func(p kube.Pod) bool { return w.joined[p.UID] && !p.Over }), nil
}

// join notes the pods that are ready, and forgets those that are not there.
func (w *PodWatch) join(pods []kube.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	joined := make(map[string]bool, len(pods))
	for _, p := range pods {
		if p.Ready || w.joined[p.UID] {
			joined[p.UID] = true
			w.names[w.pods.naming.of(p)] = p.Name
		}
	}
	w.joined = joined
}

// Where returns which pod a host is, on which node, and what has become of it.
func (w *PodWatch) Where(host string) string {
	pod, known := w.last(host)
	if !known {
		return ""
	}
	return described(pod)
}

// End waits for the end of a host's pod, and returns what has become of it. It returns "" for a pod
// that had ended before the call, or that is there when ctx ends: Kubernetes says why it has ended
// a pod after the pod's processes have ended.
func (w *PodWatch) End(ctx context.Context, host string) string {
	pod, known := w.last(host)
	if !known || pod.Over {
		return ""
	}
	for !pod.Over {
		if !retry.Wait(ctx, 100*time.Millisecond) {
			return ""
		}
		pod = w.watch.Again(pod)
	}
	return described(pod)
}

// last returns how the pod of a host was last seen.
func (w *PodWatch) last(host string) (pod kube.Pod, known bool) {
	w.mu.Lock()
	name := w.names[host]
	w.mu.Unlock()
	return w.watch.Last(name)
}

func described(pod kube.Pod) string {
	text := "pod " + pod.Name + " on node " + pod.Node
	if pod.Reason != "" {
		text += ": " + pod.Reason
	}
	return text
}
