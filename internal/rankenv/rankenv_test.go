package rankenv

import (
	"strings"
	"testing"
)

func lookupIn(env []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, kv := range env {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestRoundTrip(t *testing.T) {
	want := Rank{Job: "j1", Epoch: 2, Rank: 3, Size: 8, LocalRank: 1, LocalSize: 2, CrossRank: 1, CrossSize: 4,
		Host: "f2", Addr: "10.0.0.2", Agent: "127.0.0.1:4000", Token: "secret"}
	got, ok, err := FromEnviron(lookupIn(want.Environ()))
	if err != nil || !ok {
		t.Fatalf("FromEnviron: ok=%v err=%v", ok, err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryVariableSetIsDroppedWhenInherited(t *testing.T) {
	for _, kv := range (Rank{Size: 1, MasterAddr: "10.0.0.1", MasterPort: 1}).Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !Stale(name) {
			t.Errorf("%s is set for ranks but an inherited value would be kept", name)
		}
	}
	for _, keep := range []string{"PATH", "HOROVOD_TIMELINE", "RANKING", "NCCL_DEBUG"} {
		if Stale(keep) {
			t.Errorf("%s must be kept", keep)
		}
	}
}

func TestPlainProcessIsNotARank(t *testing.T) {
	if _, ok, err := FromEnviron(lookupIn(nil)); ok || err != nil {
		t.Errorf("ok=%v err=%v, want a plain process", ok, err)
	}
}

func TestBadEnvironmentNamesTheVariable(t *testing.T) {
	env := Rank{Size: 2, Rank: 1}.Environ()
	for _, tc := range []struct{ name, value, want string }{
		{"GORUN_SIZE", "two", "GORUN_SIZE"},
		{"GORUN_RANK", "2", "GORUN_RANK=2 does not fit"},
		{"GORUN_RANK", "-1", "GORUN_RANK=-1 does not fit"},
	} {
		bad := append([]string{tc.name + "=" + tc.value}, env...)
		_, ok, err := FromEnviron(lookupIn(bad))
		if !ok || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: ok=%v err=%v, want an error with %q", tc.name, tc.value, ok, err, tc.want)
		}
	}
}
