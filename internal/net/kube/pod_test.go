package kube

import (
	"encoding/json"
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
