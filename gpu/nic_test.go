package gpu

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/test/check"
)

// rails is a machine of two sockets with a GPU beside a card on each of two switches, a third card
// on another port of the first socket, and cards that are nowhere.
func rails() fs.FS {
	files := fstest.MapFS{}
	link := func(name, target string) {
		files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	device := func(way, node string) {
		id := way[strings.LastIndex(way, "/")+1:]
		link("sys/bus/pci/devices/"+id, "../../../devices/"+way)
		files["sys/devices/"+way+"/numa_node"] = &fstest.MapFile{Data: []byte(node + "\n")}
	}
	nic := func(name, way, node string) {
		device(way, node)
		link("sys/class/net/"+name, "../../devices/"+way+"/net/"+name)
	}
	const one = "pci0000:17/0000:17:00.0/0000:18:00.0/"
	const two = "pci0000:97/0000:97:00.0/0000:98:00.0/"
	device(one+"0000:19:01.0/0000:1a:00.0", "0")
	device(two+"0000:99:01.0/0000:9a:00.0", "1")
	device("platform/x/pci0000:e0/0000:e0:01.0/0000:e1:00.0", "1")
	nic("near0", one+"0000:19:02.0/0000:1b:00.0", "0")
	nic("near1", two+"0000:99:02.0/0000:9b:00.0", "1")
	nic("near1b", two+"0000:99:02.0/0000:9b:00.1", "1")
	nic("node0", "pci0000:20/0000:20:01.0/0000:21:00.0", "0")
	link("sys/class/net/virtio", "../../devices/pci0000:00/0000:00:05.0/virtio1/net/virtio")
	link("sys/class/net/bond0", "../../devices/virtual/net/bond0")
	link("sys/devices/virtual/net/bond0/lower_near0", "../near0")
	link("sys/class/net/vlan7", "../../devices/virtual/net/vlan7")
	link("sys/devices/virtual/net/vlan7/lower_bond0", "../bond0")
	link("sys/class/net/br0", "../../devices/virtual/net/br0")
	link("sys/class/net/round", "../../devices/virtual/net/round")
	link("sys/devices/virtual/net/round/lower_round", "../round")
	return files
}

func TestNearestNICs(t *testing.T) {
	const gpu0 = "0000:1a:00.0"
	const gpu1 = "0000:9a:00.0"
	const gpu2 = "0000:e1:00.0"
	for _, tc := range []struct{ gpus, nics, want string }{
		{gpu0, "near0 near1 node0", "near0"},
		{gpu1, "near0 near1 near1b", "near1 near1b"},
		{gpu0 + " " + gpu1, "near1 node0 near0", "near1 near0"}, // each of them near one
		{gpu0, "near1 node0", "node0"},                          // of its node
		{gpu2, "node0 near1", "near1"},                          // of its node, over another bridge
		{gpu1, "node0", "node0"},                                // far, and there is no other
		{gpu1, "node0 near0", "node0 near0"},                    // as far
		{gpu0, "bond0 near1", "bond0"},
		{gpu0, "vlan7 near1", "vlan7"},
		{gpu1, "vlan7 near1", "near1"},
		{gpu0, "near0 near1 br0 round", "near0 br0 round"}, // nobody knows where
		{gpu0, "virtio near1", "virtio near1"},
		{"", "near0 near1", "near0 near1"},
		{"0000:77:00.0", "near0 near1", "near0 near1"}, // there is none
		{gpu0 + " 0000:77:00.0", "near0 near1", "near0 near1"},
		{gpu0, "near1 missing", "near1 missing"},
		{gpu0, "", ""},
	} {
		got := NearestNICs(rails(), strings.Fields(tc.gpus), strings.Fields(tc.nics))
		want := strings.Fields(tc.want)
		check.That(t, slices.Equal(got, want), "%q of %q: %q, want %q", tc.gpus, tc.nics, got, want)
	}
}
