package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// addInterface gives a host another network interface, or a bridge, that is up and has an address.
func addInterface(t *testing.T, c *lab.Cluster, host, name, prefix string) {
	t.Helper()
	script := `ip link add "$0" type veth peer name "peer-$0" && ip addr add "$1" dev "$0" && ip link set "peer-$0" up && ip link set "$0" up`
	if out, err := c.On(t.Context(), host, "sh", "-c", script, name, prefix).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", host, err, out)
	}
}

func TestNetworkInterface(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	f1, f2 := c.Host("f1").Addr, c.Host("f2").Addr
	for i, host := range []string{"f1", "f2"} {
		addInterface(t, c, host, "docker0", "172.17.0.1/16")
		addInterface(t, c, host, "fast0", []string{"10.99.0.1/24", "10.99.0.2/24"}[i])
	}
	for asked, want := range map[string][3]string{ // the addresses of both hosts, and the interfaces that NCCL is told of
		"":             {f1 + ",10.99.0.1,172.17.0.1", f2 + ",10.99.0.2,172.17.0.1", "eth0,fast0"},
		"eth0":         {f1, f2, "eth0"},
		"10.77.0.0/16": {f1, f2, "eth0"},
		"fast*":        {"10.99.0.1", "10.99.0.2", "fast0"},
		"^docker*":     {f1 + ",10.99.0.1", f2 + ",10.99.0.2", "eth0,fast0"},
	} {
		t.Run(asked, func(t *testing.T) {
			r := start(t, c, "--prefix", "none", "-v", "--network-interface", asked, "-H", "f1,f2",
				"sh", "-c", "echo $GORUN_HOSTNAME $GORUN_ADDR $GORUN_ADDRS $MASTER_ADDR $NCCL_SOCKET_IFNAME").want(0, "f2: ranks reach it at "+strings.Split(want[1], ",")[0])
			got := strings.Split(strings.TrimSpace(r.out.String()), "\n")
			slices.Sort(got)
			first := func(list string) string { addr, _, _ := strings.Cut(list, ","); return addr }
			lines := []string{
				"f1 " + first(want[0]) + " " + want[0] + " " + first(want[0]) + " " + want[2],
				"f2 " + first(want[1]) + " " + want[1] + " " + first(want[0]) + " " + want[2],
			}
			if !slices.Equal(got, lines) {
				t.Errorf("got %q, want %q", got, lines)
			}
		})
	}
}

func TestRingUsesTheNetworkInterface(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, program := range []string{"hello", "allreduce"} {
		r := start(t, c, "--network-interface", "eth0", "-np", "4", "-H", "f1:2,f2:2", binary(program)).want(0)
		if n := strings.Count(r.out.String(), "\n"); n < 4 {
			t.Errorf("%s printed %d lines: %q", program, n, &r.out)
		}
	}
}

func TestNetworkInterfaceThatHostsLack(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	addInterface(t, c, "f1", "fast0", "10.99.0.1/24")
	r := start(t, c, "--network-interface", "fast0", "-H", "f1,f2", "sh", "-c", "echo started")
	r.want(125, "gorun: error: f2: no address for ranks to use: --network-interface asks for fast0, and the host has eth0 "+c.Host("f2").Addr+"/16",
		"gorun: hint: name interfaces that are up on every host")
	if r.out.Len() > 0 || strings.Contains(r.err.String(), "f1: no address") {
		t.Errorf("stdout %q, stderr %q", &r.out, &r.err)
	}
	start(t, nil, "--network-interface", "eth99", "true").want(125, "gorun: error: localhost: no address for ranks to use: --network-interface asks for eth99, and the host has ", "lo 127.0.0.1/8")
	start(t, nil, "--network-interface", "eth0,", "true").want(2, `--network-interface "eth0,": an item is empty`)
	startIn(t, nil, []string{"GORUN_NETWORK_INTERFACE=1/2"}, "true").want(2, `GORUN_NETWORK_INTERFACE=1/2: "1/2" is not a subnet`)
	if r := start(t, nil, "--network-interface", "eth0", "--dry-run", "true").want(0); !strings.Contains(r.out.String(), "network    eth0\n") {
		t.Errorf("%q", &r.out)
	}
}
