package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/rankenv"
)

// What the user sets of these variables counts, also when it is nothing.
func TestUsersChooseForHorovod(t *testing.T) {
	rank := rankenv.Rank{Size: 1, GlooPort: 4711, Interface: "eth0"}
	p := program{env: map[string]string{"NCCL_SOCKET_IFNAME": "", "HOROVOD_GLOO_IFACE": "ib0", "HOROVOD_GLOO_RENDEZVOUS_PORT": "1"}}
	got := map[string]string{}
	for _, kv := range p.rankEnv(rank) {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = value
	}
	for name, want := range map[string]string{"NCCL_SOCKET_IFNAME": "", "HOROVOD_GLOO_IFACE": "ib0", "HOROVOD_CONTROLLER": "gloo",
		"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": "4711"} {
		if value, set := got[name]; !set || value != want {
			t.Errorf("%s is %q, %v; want %q", name, value, set, want)
		}
	}
}

func TestNoProxyForLoopback(t *testing.T) {
	const local = "127.0.0.1,localhost"
	for have, want := range map[string]string{
		"A=1":                                "A=1",
		"no_proxy=a":                         "no_proxy=a",
		"http_proxy=":                        "http_proxy=",
		"http_proxy=p":                       "NO_PROXY=" + local + " http_proxy=p no_proxy=" + local,
		"ALL_PROXY=p no_proxy=a":             "ALL_PROXY=p no_proxy=a," + local,
		"HTTPS_PROXY=p NO_PROXY=":            "HTTPS_PROXY=p NO_PROXY=" + local,
		"http_proxy=p no_proxy=*":            "http_proxy=p no_proxy=*",
		"http_proxy=p no_proxy=a NO_PROXY=b": "NO_PROXY=b," + local + " http_proxy=p no_proxy=a," + local,
	} {
		env := map[string]string{}
		for _, kv := range strings.Fields(have) {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		spareLoopback(env)
		var got []string
		for _, name := range slices.Sorted(maps.Keys(env)) {
			got = append(got, name+"="+env[name])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s became %s, want %s", have, got, want)
		}
	}
}

// Each rank has a rendezvous of its own that reaches the others. Scopes of one host ask no launcher.
func TestServeHorovodsRendezvous(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	record := strings.Repeat("x", 136)
	h.run(jobOf(2, "/proc/self/exe", askWord,
		"GLOO-GET /local_h1/0", "GLOO-PUT /local_h1/LOCAL "+record, "GLOO-GET /local_h1/0", "GLOO-GET /local_h1/1", "GLOO-GET /local_h1/2",
		"GLOO-PUT /local_h1/1 y", "GLOO-DELETE /local_h1/LOCAL", "GLOO-GET /local_h1/0"))
	exits := h.finish()
	for rank := 2; rank <= 3; rank++ {
		if got, want := h.printed(rank, 1), "404 \n200 \n200 "+record+"\n200 "+record+"\n404 \n500 \n200 \n404 \n"; got != want || exits[rank].Code != 0 {
			t.Errorf("rank %d: %+v, %q; want %q", rank, exits[rank], got, want)
		}
	}
}
