package launcher

import (
	"context"
	"net/netip"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/route"
)

// What was published in epochs before the one that begins is forgotten; newcomers have published in
// the new one already.
func TestOldEpochsKeysAreForgotten(t *testing.T) {
	j := &elasticJob{loop: &loop{store: kv.NewStore(), opts: Options{Reach: Reach{Trace: func(string, ...any) {
	}}}}, procs: map[elastic.Process]*elasticProcess{}}
	kept := map[string]bool{"epoch/1/gloo/0/global/0": false, "epoch/9/a": false, "epoch/10/gloo/0/global/0": true,
		"epoch/11/a": true,
		"epoch/9":    true, "epoch/x/a": true, "9/a": true, "a/epoch/9/b": true}
	for key := range kept {
		must.OK(t, j.store.Put("host", key, []byte("x")))
	}
	j.announce(elastic.Plan{Epoch: 10, Members: []elastic.Member{{Size: 1}}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for key, want := range kept {
		_, found := j.store.Get(ended, key)
		check.Equal(t, found, want, key, "is there")
	}
}

// A process of this machine starts with an address that other hosts can use if there may be others.
func TestAddressesAlone(t *testing.T) {
	here := route.Contact{Local: true, Boot: "a", Addresses: []wire.Address{
		{Interface: "lo", Loopback: true, Up: true, Prefix: netip.MustParsePrefix("127.0.0.1/8")},
		{Interface: "ib0", Up: true, Speed: 100, Prefix: netip.MustParsePrefix("10.1.0.1/16")},
		{Interface: "eth0", Up: true, Speed: 10, Prefix: netip.MustParsePrefix("10.0.0.1/16")},
	}}
	there := route.Contact{
		Boot:    "b",
		Caller:  "10.0.0.1",
		Reached: "10.0.0.2",
		Addresses: []wire.Address{
			{Interface: "eth0", Up: true, Speed: 10, Prefix: netip.MustParsePrefix("10.0.0.2/16")}},
	}
	alone := []hostfile.Host{{Name: "localhost"}}
	two := []hostfile.Host{{Name: "localhost"}, {Name: "f1"}}
	discover := func(context.Context) ([]hostfile.Host, error) { return alone, nil }
	for name, tc := range map[string]struct {
		settings Elastic
		known    map[string]route.Contact
		want     string
	}{
		"alone for good":             {Elastic{Hosts: alone}, nil, "127.0.0.1"},
		"others may come":            {Elastic{Hosts: alone, Discover: discover}, nil, "10.1.0.1"},
		"another is not reached yet": {Elastic{Hosts: two}, nil, "10.1.0.1"},
		"another is there":           {Elastic{Hosts: two}, map[string]route.Contact{"f1": there}, "10.0.0.1"},
		"another has come": {Elastic{Hosts: alone, Discover: discover},
			map[string]route.Contact{"f1": there, "localhost": here}, "10.0.0.1"},
	} {
		j := &elasticJob{loop: &loop{}, settings: tc.settings, contacts: map[string]route.Contact{}}
		for host, c := range tc.known {
			j.contacts[host] = c
		}
		chosen, err := j.addressesAlone("localhost", here)
		check.That(t, err == nil && len(chosen) != 0 && route.AddrText(chosen[0]) == tc.want,
			"%s: %v, %v; want %s first", name, chosen, err, tc.want)
		_, known := j.contacts["localhost"]
		check.That(t, known, "%s: others will not hear of it", name)
	}
	// Without a network there is nothing else.
	j := &elasticJob{loop: &loop{}, settings: Elastic{Hosts: alone, Discover: discover},
		contacts: map[string]route.Contact{}}
	lonely := route.Contact{Local: true, Boot: "a", Addresses: here.Addresses[:1]}
	chosen, err := j.addressesAlone("localhost", lonely)
	check.That(t, err == nil && len(chosen) == 1 && route.AddrText(chosen[0]) == "127.0.0.1",
		"without a network: %v, %v", chosen, err)
}
