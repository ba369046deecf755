package rankenv

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
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
	want := Rank{
		Job:       "j1",
		Epoch:     2,
		Rank:      3,
		Size:      8,
		LocalRank: 1,
		LocalSize: 2,
		CrossRank: 1,
		CrossSize: 4,
		Host:      "f2",
		Addr:      "10.0.0.2",
		Addrs:     []string{"10.0.0.2", "2001:db8::2", "192.168.1.2"},
		Agent:     "127.0.0.1:4000",
		Token:     "secret",
	}
	got, ok, err := FromEnviron(lookupIn(want.Environ()))
	must.That(t, err == nil && ok, "FromEnviron: ok=%v err=%v", ok, err)
	check.That(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
}

func TestEveryVariableSetIsDroppedWhenInherited(t *testing.T) {
	ofJob := []string{"SLURM_NTASKS", "SLURM_NPROCS"} // true of a job of Slurm, too
	for _, launcher := range []string{"", "srun", "flux"} {
		for _, kv := range (Rank{
			Size:       1,
			Rendezvous: Rendezvous{MasterAddr: "10.0.0.1", MasterPort: 1, GlooPort: 1},
			MPI:        MPI{FD: 3},
			ResultFD:   4,
			Launcher:   launcher,
		}).Environ() {
			name, _, _ := strings.Cut(kv, "=")
			check.That(t, Stale(name) || slices.Contains(ofJob, name),
				"%s is set for ranks but an inherited value would be kept", name)
		}
	}
	for _, keep := range []string{"PATH", "HOROVOD_TIMELINE", "RANKING", "NCCL_DEBUG", "HOROVOD_GLOO_IFACE"} {
		check.That(t, !Stale(keep), "%s must be kept", keep)
	}
}

// JAX is told that the job is Open MPI's, with the coordinator at MASTER_ADDR and MASTER_PORT. A
// rank has the GPU of its local rank, or all that it sees.
func TestJAXFindsTheJob(t *testing.T) {
	const finds = "OMPI_MCA_orte_hnp_uri=0.0;tcp://10.0.0.1:29500"
	const at = "JAX_COORDINATOR_ADDRESS=10.0.0.1:29500"
	for name, tt := range map[string]struct {
		address         string
		localSize, gpus int
		want            []string
	}{
		"no address":                      {"", 2, 0, nil},
		"no GPUs":                         {"10.0.0.1", 2, 0, []string{finds, at}},
		"each sees its own GPU":           {"10.0.0.1", 4, 1, []string{finds, at, "JAX_LOCAL_DEVICE_IDS=0"}},
		"all see all and take their own":  {"10.0.0.1", 4, 4, []string{finds, at}},
		"the only rank of a host has all": {"10.0.0.1", 1, 3, []string{finds, at, "JAX_LOCAL_DEVICE_IDS=0,1,2"}},
		"IPv6": {"fd00::2", 2, 0, []string{"OMPI_MCA_orte_hnp_uri=0.0;tcp6://[fd00::2]:29500",
			"JAX_COORDINATOR_ADDRESS=[fd00::2]:29500"}},
	} {
		r := Rank{Rendezvous: Rendezvous{MasterAddr: tt.address, MasterPort: 29500}}
		r.LocalSize = tt.localSize
		r.GPUs = tt.gpus
		got := jaxOf(r)
		check.That(t, slices.Equal(got, tt.want), "%s: %q, want %q", name, got, tt.want)
		r.Elastic = true
		got = jaxOf(r)
		check.That(t, len(got) == 0, "%s, in an elastic job: %q", name, got)
	}
	check.That(t, Stale("OMPI_MCA_orte_hnp_uri") && Stale("JAX_COORDINATOR_ADDRESS") && !Stale("JAX_LOCAL_DEVICE_IDS"),
		"what an outer job says of JAX reaches the ranks, or what the user says does not")
}

// jaxOf returns the variables of a rank that only JAX reads.
func jaxOf(r Rank) []string {
	return slices.DeleteFunc(r.Defaults(), func(kv string) bool {
		return !strings.HasPrefix(kv, "JAX_") && !strings.HasPrefix(kv, "OMPI_MCA_orte_hnp")
	})
}

func TestPlainProcessIsNotARank(t *testing.T) {
	_, ok, err := FromEnviron(lookupIn(nil))
	check.That(t, !ok && err == nil, "ok=%v err=%v, want a plain process", ok, err)
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
		check.That(t, ok && err != nil && strings.Contains(err.Error(), tc.want),
			"%s=%s: ok=%v err=%v, want an error with %q", tc.name, tc.value, ok, err, tc.want)
	}
}

func TestAddressesBestFirst(t *testing.T) {
	without := func(name string, env []string) []string {
		return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	alone := Rank{Size: 1, Addr: "10.0.0.2"}.Environ()
	for name, tc := range map[string]struct{ env, want []string }{
		"one address":       {alone, []string{"10.0.0.2"}},
		"no GORUN_ADDRS":    {without("GORUN_ADDRS", slices.Clone(alone)), []string{"10.0.0.2"}},
		"GORUN_ADDRS empty": {append([]string{"GORUN_ADDRS="}, alone...), []string{"10.0.0.2"}},
		"no address at all": {Rank{Size: 1}.Environ(), nil},
		"several": {Rank{Size: 1, Addr: "10.0.0.2", Addrs: []string{"10.0.0.2", "fd00::2"}}.Environ(),
			[]string{"10.0.0.2", "fd00::2"}},
		"an address's scope": {Rank{Size: 1, Addr: "fe80::2%eth0"}.Environ(), []string{"fe80::2%eth0"}},
		"as many as may be": {append([]string{"GORUN_ADDR=10.0.0.0", "GORUN_ADDRS=" +
			strings.Join(numbered(MaxAddrs), ",")}, alone...), numbered(MaxAddrs)},
		"set over a default": {append([]string{"GORUN_ADDRS=10.0.0.2,10.0.0.3"}, alone...),
			[]string{"10.0.0.2", "10.0.0.3"}},
	} {
		r, _, err := FromEnviron(lookupIn(tc.env))
		check.That(t, err == nil && slices.Equal(r.Addrs, tc.want), "%s: %q, %v; want %q", name, r.Addrs, err, tc.want)
	}
}

// numbered are n different addresses.
func numbered(n int) (addrs []string) {
	addr := netip.MustParseAddr("10.0.0.0")
	for range n {
		addrs = append(addrs, addr.String())
		addr = addr.Next()
	}
	return addrs
}

func TestAddressesThatCannotBe(t *testing.T) {
	env := Rank{Size: 1, Addr: "10.0.0.0"}.Environ()
	for list, want := range map[string]string{
		"10.0.0.0,f2":                           `"f2" is not an IP address`,
		"10.0.0.0,":                             `"" is not an IP address`,
		"10.0.0.0, 10.0.0.1":                    `" 10.0.0.1" is not an IP address`,
		"10.0.0.0:80":                           "is not an IP address",
		"10.0.0.1,10.0.0.0":                     "does not begin with GORUN_ADDR=10.0.0.0",
		"10.0.0.0,10.0.0.1,10.0.0.0":            "lists 10.0.0.0 twice",
		strings.Join(numbered(MaxAddrs+1), ","): "lists 65 addresses, at most 64",
	} {
		_, ok, err := FromEnviron(lookupIn(append([]string{"GORUN_ADDRS=" + list}, env...)))
		check.That(t, ok && err != nil && strings.Contains(err.Error(), "GORUN_ADDRS") &&
			strings.Contains(err.Error(), want), "%q: ok=%v err=%v, want an error with %q", list, ok, err, want)
	}
}

func TestAgentForgetsItsOwnStep(t *testing.T) {
	env := []string{"A=1", "SLURMD_NODENAME=n1", "SLURM_JOB_ID=7", "SLURM_STEP_ID=1", "SLURM_CPUS_ON_NODE=2",
		"SLURM_NTASKS=3"}
	got := OfAgentsStep(env)
	check.That(t, got == nil, "an agent that srun has not started forgets %q", got)
	got = OfAgentsStep(append(env, SlurmStep+"=1"))
	check.That(t, slices.Equal(got, []string{"SLURM_STEP_ID", "SLURM_NTASKS", SlurmStep}), "got %q", got)
}
