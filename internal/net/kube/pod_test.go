package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestReasons(t *testing.T) {
	for _, tc := range []struct{ status, want string }{
		{`"phase":"Pending","containerStatuses":[{"name":"a","state":{"waiting":{"reason":"ImagePullBackOff",` +
			`"message":"Back-off pulling image x"}}}]`, "ImagePullBackOff: Back-off pulling image x"},
		{`"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",` +
			`"message":"0/2 nodes are available"}]`, "Pending: Unschedulable: 0/2 nodes are available"},
		{`"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ContainerCreating"}}}]`,
			"ContainerCreating"},
		{`"phase":"Pending","initContainerStatuses":[{"name":"keys","state":{"waiting":{"reason":"CrashLoopBackOff"}}}],` +
			`"containerStatuses":[{"state":{"waiting":{"reason":"PodInitializing"}}}]`, "CrashLoopBackOff"},
		{`"phase":"Failed","reason":"Evicted","message":"The node was low on memory"`,
			"Failed: Evicted: The node was low on memory"},
		{`"phase":"Failed","reason":"Evicted","message":"The node was low on memory","containerStatuses":[{"name":"a",` +
			`"state":{"terminated":{"reason":"Error","exitCode":137}}}]`, "Failed: Evicted: The node was low on memory"},
		{`"phase":"Failed","containerStatuses":[{"name":"a","state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]`,
			"Failed: container a exited with code 137 (OOMKilled)"},
		{`"phase":"Running","conditions":[{"type":"Ready","status":"False","message":"containers with unready status: [a]"}]`,
			"Running: containers with unready status: [a]"},
		{`"phase":"Running","conditions":[{"type":"Ready","status":"True"}]`, ""},
	} {
		var o object
		must.OK(t, json.Unmarshal([]byte(`{"metadata":{"name":"w-0"},"status":{`+tc.status+`}}`), &o))
		pod, err := o.pod()
		check.That(t, err == nil && pod.Reason == tc.want && pod.Ready == (tc.want == ""),
			"%s: %+v, %v, want %q", tc.status, pod, err, tc.want)
	}
	var o object
	const deleted = `{"metadata":{"name":"w-0","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[` +
		`{"resources":{"limits":{"nvidia.com/gpu":"2","cpu":"4"}}},{"resources":{"limits":{"nvidia.com/gpu":2}}}]},` +
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	must.OK(t, json.Unmarshal([]byte(deleted), &o))
	pod, err := o.pod()
	check.That(t, err == nil && !pod.Ready && pod.Over && pod.Reason == "it is being deleted" && pod.GPUs == 4,
		"%+v, %v", pod, err)
}

// A pod takes a bounded place in memory and in a job, whatever the server says of it.
func TestPodsAreBounded(t *testing.T) {
	const spec = `{"metadata":{"name":"w-0"},"spec":{"containers":[{"resources":{"limits":{"x.com/gpu":%q}}}]},` +
		`"status":{"phase":"Pending","message":%q}}`
	for count, want := range map[string]int{"-5": 0, "9223372036854775807": maxGPUs, "3": 3} {
		var o object
		must.OK(t, json.Unmarshal(fmt.Appendf(nil, spec, count, strings.Repeat("x", 1<<20)), &o))
		pod := must.Get(o.pod())(t)
		check.Equal(t, pod.GPUs, want)
		check.That(t, len(pod.Reason) < 1<<13, "a reason of %d bytes", len(pod.Reason))
	}
}
