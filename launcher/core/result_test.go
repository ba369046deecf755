package core

import (
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestResultCode(t *testing.T) {
	failure := func(e Exit) *Failure { return &Failure{Exit: e} }
	lost := &Failure{Rank: -1, Lost: errors.New("gone")}
	for _, tc := range []struct {
		name   string
		result Result
		want   int
	}{
		{"success", Result{}, 0},
		{"a rank's own code", Result{Cause: failure(Exit{Code: 42})}, 42},
		{"a signal", Result{Cause: failure(Exit{Signal: 9})}, 137},
		{"a signal with a core", Result{Cause: failure(Exit{Signal: 11, Core: true})}, 139},
		{"a program that is not executable", Result{Cause: failure(Exit{Code: 126, Failed: "x"})}, 126},
		{"a program that is not there", Result{Cause: failure(Exit{Code: 127, Failed: "x"})}, 127},
		{"a lost host", Result{Cause: lost}, 125},
		{"a host that never reported", Result{Unconfirmed: []string{"a"}}, 125},
		{"a failure, and a host that never reported", Result{Cause: failure(Exit{Code: 3}), Unconfirmed: []string{"a"}},
			3},
		{"a process that cannot be killed", Result{Unkillable: []Unkillable{{Host: "a"}}}, 123},
		{"that, and a host that never reported", Result{Unkillable: []Unkillable{{Host: "a"}},
			Unconfirmed: []string{"b"}}, 125},
		{"a failure, and a process that cannot be killed",
			Result{Cause: failure(Exit{Code: 3}), Unkillable: []Unkillable{{Host: "a"}}}, 3},
		{"Ctrl-C", Result{Stopped: Interrupted}, 130},
		{"TERM", Result{Stopped: Terminated}, 143},
		{"HUP", Result{Stopped: HungUp}, 129},
		{"a closed pipe", Result{Stopped: OutputClosed}, 141},
		{"a full disk", Result{Stopped: OutputFailed}, 125},
		{"a time limit", Result{Stopped: TimedOut}, 124},
		{"a hang", Result{Stopped: Hung}, 122},
		{"Ctrl-C wins over what it caused", Result{Stopped: Interrupted, Cause: failure(Exit{Code: 1}),
			Unconfirmed: []string{"a"}}, 130},
	} {
		check.Equal(t, tc.result.Code(), tc.want, tc.name)
	}
}

// TestCodesOfLaunchers has the ends of ranks, in the order of time, and the code by each launcher's
// rule.
func TestCodesOfLaunchers(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		exits                       []Exit
		first, highest, merged, one int
	}{
		{"one code", []Exit{{Code: 3}}, 3, 3, 3, 1},
		{"several codes", []Exit{{}, {Code: 4}, {Code: 9}, {Code: 2}}, 4, 9, 15, 1},
		{"a signal", []Exit{{Signal: 9}}, 137, 137, 9, 1},
		{"a code before a signal", []Exit{{Code: 4}, {Signal: 11}}, 4, 139, 11, 1},
		{"two signals", []Exit{{Signal: 11}, {Signal: 6}}, 139, 139, 15, 1},
		{"ranks that were stopped", []Exit{{Code: 3}, {Signal: 15, Stopped: true}, {Code: 7, Stopped: true}}, 3,
			3, 3, 1},
		{"MPI_Abort", []Exit{{MPI: MPIAborted, Code: 5}}, 5, 5, 5, 1},
		{"an end within MPI", []Exit{{MPI: MPIUnfinished}}, 1, 1, 1, 1},
		{"a program that is not there", []Exit{{Code: 127, Failed: "x"}}, 127, 127, 127, 1},
	} {
		r := Result{Exits: tc.exits}
		for i := range tc.exits {
			if r.Cause == nil && tc.exits[i].IsFailure() {
				r.Cause = &Failure{Exit: tc.exits[i]}
			}
		}
		elastic := Result{Elastic: &ElasticEnd{Code: r.Code()}}
		lost := Result{Cause: &Failure{Lost: errors.New("gone")}, Exits: tc.exits}
		for codes, want := range map[Codes]int{FirstCode: tc.first, HighestCode: tc.highest, MergedCode: tc.merged,
			OneCode: tc.one} {
			r.Codes = codes
			elastic.Codes = codes
			lost.Codes = codes
			check.Equal(t, r.Code(), want, tc.name, "rule", codes)
			if got := elastic.Code(); codes == OneCode && got != 1 || codes == FirstCode && got != tc.first {
				t.Errorf("%s, an elastic job, rule %d: %d", tc.name, codes, got)
			}
			check.Equal(t, lost.Code(), CodeLaunch, tc.name, "a lost host, rule", codes)
		}
	}
}

func TestDescribe(t *testing.T) {
	after := &StopCause{Rank: 3, Host: "b"}
	const killed = "was killed by signal 9 (SIGKILL)"
	const noSuch = "a message, whatever the code may be"
	for want, e := range map[string]Exit{
		"exited with code 3": {Code: 3},
		killed:               {Signal: 9},
		"was killed by signal 6 (SIGABRT), core dumped": {Signal: 6, Core: true},
		"was killed by signal 40 (signal 40)":           {Signal: 40},
		"was killed by signal 15 (SIGTERM)":             {Signal: 15, At: time.Second},
		"did not start: " + noSuch:                      {Code: 126, Failed: noSuch},
		killed + ": the host ran out of memory":         {Signal: 9, OutOfMemory: MemoryOfHost},
		killed + ": its cgroup's memory limit of 2 GiB was reached": {Signal: 9, OutOfMemory: MemoryOfGroup,
			MemoryLimit: 2 << 30},
		"exited with code 137: the host ran out of memory, it seems": {Code: 137, OutOfMemory: MemoryLikely},
		"exited with code 137":                                 {Code: 137},
		"was stopped by gorun after rank 3 failed":             {Signal: 15, Stopped: true, Cause: after},
		"was stopped by gorun after rank 3 failed, by SIGKILL": {Signal: 9, Stopped: true, Cause: after},
		"was stopped by gorun":                                 {Code: 7, Stopped: true},
		"was stopped by gorun after SIGTERM": {Stopped: true,
			Cause: &StopCause{Reason: Terminated, Rank: -1}},
	} {
		check.Equal(t, e.Describe(), want)
	}
}

func TestHostErrorNamesTheHostOnce(t *testing.T) {
	for text, want := range map[string]string{
		"no route":                             "f1: no route",
		"f1: no address for the name f1":       "f1: no address for the name f1",
		"f1 (10.0.0.1:22): connection refused": "f1 (10.0.0.1:22): connection refused",
		"f10: no route":                        "f1: f10: no route",
	} {
		check.Equal(t, (HostError{"f1", errors.New(text)}).Error(), want)
	}
}
