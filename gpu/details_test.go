package gpu

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// inventory is a gorun-gpu that prints the usable GPUs of two-sockets.txt.
const inventory = `echo '{"devices": [
{"index": 0, "uuid": "GPU-1", "bus_id": "0000:07:00.0", "name": "A100", "memory_bytes": 1024, "memory_used": 512, "utilization": 7, "nvlinks": {"1": 12}},
{"index": 1, "bus_id": "00000000:3B:00.0", "mig_enabled": true, "mig": [{"uuid": "MIG-1", "profile": "1g.5gb", "memory_bytes": 128}], "processes": [{"pid": 7}]}]}'`

func TestDetailsJoinTheDriverAndProc(t *testing.T) {
	got, err := Details(t.Context(), Sources{Root: tree(t, "two-sockets.txt"), Helper: program(t, inventory),
		SMI: at(program(t, "kill -9 $$"))})
	want := Inventory{Devices: []Device{
		{Index: 0, Minor: 0, BusID: "0000:07:00.0", Name: "A100", NUMANode: 0, UUID: "GPU-1", MemoryBytes: 1024,
			MemoryUsed:  512,
			Utilization: 7, NVLinks: map[int]int{1: 12}},
		{Index: 1, Minor: 1, BusID: "0000:3b:00.0", Name: "NVIDIA A100-SXM4-40GB", NUMANode: 1,
			UUID:        "GPU-8a1b2c3d-0000-1111-2222-333344445555",
			Utilization: -1, MIGEnabled: true, MIG: []MIG{{"MIG-1", "1g.5gb", 128}}, Processes: []Process{{PID: 7}}},
	}}
	check.That(t, err == nil && reflect.DeepEqual(got, want), "Details = %+v, %v\nwant %+v", got, err, want)
}

// TestDetailsOutliveTheDriver checks that after a program fails the next one is run, and that
// fields known without either stay known. A program that hangs should end in 5 s.
func TestDetailsOutliveTheDriver(t *testing.T) {
	t.Parallel()
	csv := must.Get(filepath.Abs("testdata/smi.csv"))(t)
	good := program(t, "cat "+csv)
	old := program(t,
		`case $1 in *mig*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2;; esac; cut -d, -f1-7 `+csv)
	for name, tt := range map[string]struct {
		helper, smi string
		memory      int // of the first device; 0: not known
		warning     string
	}{
		"killed by SIGSEGV": {program(t, "kill -SEGV $$"), good, 81559, ": signal: segmentation fault"},
		"Go's way to crash": {program(t, "echo 'SIGSEGV: segmentation violation' >&2; exit 2"), good, 81559,
			": exit status 2: SIGSEGV: segmentation violation"},
		"hangs": {program(t, "trap '' TERM INT; while :; do sleep 1; done"), good, 81559,
			": it did not end within 5s"},
		"its child hangs": {program(t, "sleep 60 & exit 0"), good, 81559, "WaitDelay"},
		"garbage":         {program(t, "echo GARBAGE"), good, 81559, ": read its inventory: "},
		"endless garbage": {program(t, "exec yes GARBAGE"), good, 81559, "it printed too much"},
		"another's addresses": {program(t, `echo '{"devices": [{"index": 0, "bus_id": "../../etc"}]}'`), good, 81559,
			`"../../etc" is not a PCI address`},
		"no driver": {program(t, "echo gorun-gpu: no NVIDIA driver >&2; exit 1"), good, 81559,
			": exit status 1: gorun-gpu: no NVIDIA driver"},
		"not in root folder": {"", program(t, `[ ! -e tmp ] && cat `+csv), 81559, ""},
		"an old nvidia-smi":  {"", old, 81559, ""},
		"both fail":          {program(t, "kill -SEGV $$"), program(t, "echo no driver; exit 9"), 0, "exit status 9"},
		"silence":            {program(t, "exit 0"), good, 81559, ": read its inventory: unexpected end"},
		"no devices":         {"", program(t, "echo No devices were found"), 0, "list GPUs with "},
		"neither is there":   {"", "no-such-nvidia-smi", 0, "neither gorun-gpu nor nvidia-smi is there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			s := Sources{Root: tree(t, "two-sockets.txt"), Helper: tt.helper, SMI: at(tt.smi)}
			got, err := Details(t.Context(), s)
			took := time.Since(start)
			check.That(t, took <= 20*time.Second, "it took %v", took)
			check.That(t, err == nil && len(got.Devices) >= 2 && got.Devices[0].BusID == "0000:07:00.0" &&
				got.Devices[0].MemoryBytes == uint64(tt.memory)<<20 &&
				got.Devices[1].UUID == "GPU-8a1b2c3d-0000-1111-2222-333344445555" && got.Devices[1].Minor == 1,
				"Details = %+v, %v", got, err)
			all := strings.Join(got.Warnings, "\n")
			check.That(t, (all == "") == (tt.warning == "") && strings.Contains(all, tt.warning),
				"warnings %q, want %q", all, tt.warning)
		})
	}
}

// A process that waits in the driver for ever cannot be killed, as one in a frozen cgroup of v1.
func TestUnkillableProgramIsLeftAlone(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	group := "/sys/fs/cgroup/freezer/test-gpu-" + filepath.Base(filepath.Dir(t.TempDir()))
	if err := os.Mkdir(group, 0o755); err != nil {
		lab.Skip(t, "no cgroup v1 can be made: "+err.Error())
	}
	t.Cleanup(func() {
		check.OK(t, os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0))
		must.Until(t, "the end of the frozen process", func() bool { return os.Remove(group) == nil })
	})
	frozen := program(t, "echo $$ >"+group+"/cgroup.procs; echo FROZEN >"+group+"/freezer.state; sleep 60")
	start := time.Now()
	got, err := Details(t.Context(), Sources{Root: tree(t, "two-sockets.txt"), Helper: frozen})
	if took := time.Since(start); err != nil || len(got.Devices) != 3 || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0], "does not even when killed") || took > 30*time.Second {
		t.Errorf("Details = %+v, %v after %v", got, err, took)
	}
}

func TestNothingRunsWithoutAGPU(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	trap := program(t, "touch "+ran)
	for name, root := range map[string]fs.FS{
		"no driver":            fstest.MapFS{},
		"a driver and no GPUs": fstest.MapFS{"proc/driver/nvidia/gpus": {Mode: fs.ModeDir}, "dev/nvidiactl": {}},
	} {
		s := Sources{Root: root, Helper: trap, SMI: at(trap)}
		devices, err := List(t.Context(), s)
		if inv, err := Details(t.Context(), s); err != nil || len(inv.Devices)+len(inv.Warnings) > 0 {
			t.Errorf("%s: Details = %+v, %v", name, inv, err)
		}
		check.That(t, err == nil && len(devices) == 0 && !Present(root), "%s: List = %+v, %v", name, devices, err)
		check.Error(os.Stat(ran)).Any(t, name, "a program was run")
	}
}

// A host that gets gorun-gpu for one inventory runs it from memory.
func TestHelperOfMemory(t *testing.T) {
	file := must.Get(os.Open(program(t, inventory)))(t)
	defer file.Close()
	got, err := Details(t.Context(), Sources{Root: tree(t, "two-sockets.txt"), Helper: "no-such-gorun-gpu",
		Memory: file})
	if err != nil || len(got.Warnings) > 0 || !slices.ContainsFunc(got.Devices, func(d Device) bool {
		return d.UUID == "GPU-1"
	}) {
		t.Errorf("Details = %+v, %v", got, err)
	}
}
