package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// Pod is a pod as it was last seen.
type Pod struct {
	Name, Node, IP string
	Host           string // its name in the cluster's DNS, below its namespace; "": it has none
	UID            string // differs from that of a pod that had the name before
	GPUs           int    // GPUs that its containers get
	Ready          bool
	Over           bool   // it has ended, or is being deleted
	Cause          string // why Kubernetes has ended it: Failed: Evicted: …
	Reason         string // why it is not ready: ImagePullBackOff: …
}

// object is what gorun reads of a pod.
type object struct {
	Metadata struct {
		Name              string `json:"name"`
		UID               string `json:"uid"`
		ResourceVersion   string `json:"resourceVersion"`
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName   string `json:"nodeName"`
		Hostname   string `json:"hostname"`
		Subdomain  string `json:"subdomain"`
		Containers []struct {
			Resources struct {
				Limits map[string]json.RawMessage `json:"limits"`
			} `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		PodIP      string      `json:"podIP"`
		Conditions []condition `json:"conditions"`
		Init       []container `json:"initContainerStatuses"`
		Containers []container `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type container struct {
	Name  string `json:"name"`
	State struct {
		Waiting    *state `json:"waiting"`
		Terminated *state `json:"terminated"`
	} `json:"state"`
}

type state struct {
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"`
}

const (
	maxUID  = 253
	maxGPUs = 1 << 16
)

// pod returns the pod that an object describes. It keeps a bounded part of the object.
func (o *object) pod() (Pod, error) {
	p := Pod{
		Name: o.Metadata.Name,
		Node: o.Spec.NodeName,
		IP:   o.Status.PodIP,
		UID:  o.Metadata.UID,
		Over: o.Metadata.DeletionTimestamp != "" || o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed",
	}
	if o.Spec.Subdomain != "" {
		p.Host = cmp.Or(o.Spec.Hostname, p.Name) + "." + o.Spec.Subdomain
	}
	for _, name := range []string{p.Name, p.Host, p.Node} {
		if name != "" && !isName(name) {
			return Pod{}, fmt.Errorf("the API server names a pod, or its node, %.60q, which is no such name", name)
		}
	}
	if len(p.UID) > maxUID {
		return Pod{}, fmt.Errorf("the API server gives the pod %s a UID of %d bytes", p.Name, len(p.UID))
	}
	if p.IP != "" && !isPodAddress(p.IP) {
		return Pod{}, fmt.Errorf("the API server gives the pod %s the address %.60q, which no pod has", p.Name, p.IP)
	}
	for _, c := range o.Spec.Containers {
		for name, count := range c.Resources.Limits {
			if strings.HasSuffix(name, ".com/gpu") {
				n, _ := strconv.Atoi(strings.Trim(string(count), `"`))
				p.GPUs = min(p.GPUs+max(0, min(n, maxGPUs)), maxGPUs)
			}
		}
	}
	ready := o.condition("Ready")
	p.Ready = !p.Over && ready.Status == "True"
	if o.Status.Phase == "Failed" && o.Status.Reason != "" {
		p.Cause = prose.Printable(sentence(o.Status.Phase, o.Status.Reason, o.Status.Message))
	}
	if !p.Ready {
		p.Reason = cmp.Or(p.Cause, prose.Printable(o.reason()))
	}
	return p, nil
}

// isName reports whether a text is a name of the DNS, as those of pods are.
func isName(name string) bool {
	return len(name) < 254 && name[0] != '-' && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}

// isPodAddress reports whether a text is an address of a pod or node, by which others reach it.
func isPodAddress(text string) bool {
	a, err := netip.ParseAddr(text)
	a = a.Unmap()
	return err == nil && a.Zone() == "" && (a.IsGlobalUnicast() || a.IsLinkLocalUnicast())
}

func (o *object) condition(kind string) condition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// reason returns why a pod is not ready: what its containers wait for, or what has ended it.
func (o *object) reason() string {
	status := o.Status
	if o.Metadata.DeletionTimestamp != "" {
		return "it is being deleted"
	}
	for _, c := range slices.Concat(status.Init, status.Containers) {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing":
			return sentence(c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil && c.State.Terminated.Reason != "Completed":
			return fmt.Sprintf("%s: container %s exited with code %d (%s)", status.Phase, c.Name,
				c.State.Terminated.ExitCode, c.State.Terminated.Reason)
		}
	}
	if scheduled := o.condition("PodScheduled"); scheduled.Status == "False" {
		return sentence(status.Phase, scheduled.Reason, scheduled.Message)
	}
	return sentence(status.Phase, status.Reason, status.Message, o.condition("Ready").Message)
}

// sentence joins the parts that there are by colons.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// order sorts pods by name, the numbers in it by value: w-2 comes before w-10.
func order(a, b Pod) int {
	x := a.Name
	y := b.Name
	for x != "" && y != "" {
		m := digits(x)
		n := digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x = x[1:]
			y = y[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(m, n), cmp.Compare(x[:m], y[:n])); c != 0 {
			return c
		}
		x = x[m:]
		y = y[n:]
	}
	return cmp.Compare(len(x), len(y))
}

// digits returns how many digits a text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
