package gpu

import (
	"context"
	"errors"
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
	"github.com/gorun/gorun/internal/test/must"
)

// tree reads a directory tree from one file, where "-- path --" starts each entry, "-- path ->
// target --" a link. Real files would do, were their names not full of colons, which Go modules
// must not have.
func tree(t *testing.T, name string) fs.FS {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	files := fstest.MapFS{}
	var file *fstest.MapFile
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "-- "); ok {
			path, target, link := strings.Cut(strings.TrimSuffix(path, " --\n"), " -> ")
			file = &fstest.MapFile{Data: []byte(target)}
			if files[path] = file; link {
				file.Mode = fs.ModeSymlink
			}
		} else if file != nil {
			file.Data = append(file.Data, line...)
		}
	}
	return files
}

// program writes a shell script and returns its path.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return path
}

// at returns the place of a program for [Sources], nil for "".
func at(path string) func() (string, error) {
	if path == "" {
		return nil
	}
	return func() (string, error) { return path, nil }
}

func TestListReadsProc(t *testing.T) {
	got, err := List(t.Context(), Sources{
		Root:   tree(t, "two-sockets.txt"),
		Helper: program(t, "echo asked although /proc knows >&2; kill -9 $$"),
	})
	want := []Device{
		{Index: 0, Minor: 0, Utilization: -1, BusID: "0000:07:00.0", Name: "NVIDIA A100-SXM4-40GB", NUMANode: 0},
		{Index: 1, Minor: 1, Utilization: -1, BusID: "0000:3b:00.0", Name: "NVIDIA A100-SXM4-40GB", NUMANode: 1,
			UUID: "GPU-8a1b2c3d-0000-1111-2222-333344445555"},
		{Index: 2, Minor: 3, Utilization: -1, BusID: "10000:01:00.0", Name: "NVIDIA L4", NUMANode: -1,
			UUID: "GPU-0f0f0f0f-0000-1111-2222-333344445555"},
	}
	check.That(t, err == nil && reflect.DeepEqual(got, want), "List = %+v, %v\nwant %+v", got, err, want)
}

// Minors follow the order in which the driver finds the GPUs, not that of their addresses. These
// are of a machine with two EPYC processors. Old drivers name excluded GPUs differently.
func TestMinorsAreNotIndices(t *testing.T) {
	root := fstest.MapFS{}
	for bus, rest := range map[string]string{"0000:07": "2", "0000:0b": "3", "0000:48": "0", "0000:4c": "1",
		"0000:88": "6\nBlacklisted:\t No", "0000:8b": "7\nBlacklisted:\t Yes"} {
		root["proc/driver/nvidia/gpus/"+bus+
			":00.0/information"] = &fstest.MapFile{Data: []byte("Model: \t\t A100\nDevice Minor: \t " + rest + "\n")}
	}
	devices, err := List(t.Context(), Sources{Root: root})
	var minors []int
	for i, d := range devices {
		minors = append(minors, d.Minor)
		check.That(t, d.Index == i, "%+v", d)
	}
	check.That(t, err == nil && slices.Equal(minors, []int{2, 3, 0, 1, 6}), "minors %v, %v", minors, err)
}

func TestListAsksPrograms(t *testing.T) {
	csv, err := filepath.Abs("testdata/smi.csv")
	must.OK(t, err)
	helper := program(t,
		`echo '{"devices": [{"index": 0, "uuid": "GPU-1", "bus_id": "0000:07:00.0", "name": "X", "numa_node": -1, "memory_bytes": 1024}]}'`)
	fromHelper := []Device{{Minor: -1, UUID: "GPU-1", BusID: "0000:07:00.0", Name: "X", NUMANode: 3, MemoryBytes: 1024,
		Utilization: -1}}
	smi := program(t, `[ "$2" = --format=csv,noheader,nounits ] && cat `+csv)
	fromSMI := []Device{
		{Index: 0, Minor: -1, UUID: "GPU-8a1b2c3d-0000-1111-2222-333344445555", BusID: "0000:07:00.0",
			Name: "NVIDIA H100 80GB HBM3", NUMANode: 3,
			MemoryBytes: 81559 << 20, MemoryUsed: 1024 << 20, Utilization: 37, MIGEnabled: true},
		{Index: 1, Minor: -1, BusID: "0000:3b:00.0", Name: "NVIDIA GB10", NUMANode: -1, Utilization: -1},
	}
	noDriver := program(t, "echo no driver >&2; exit 1")
	crash := program(t, "kill -SEGV $$")
	missing := filepath.Join(t.TempDir(), "missing")

	tests := map[string]struct {
		helper, smi string
		want        []Device
		err         string
	}{
		"helper first":            {helper, smi, fromHelper, ""},
		"helper without a driver": {noDriver, smi, fromSMI, ""},
		"helper crashes":          {crash, smi, fromSMI, ""},
		"helper talks nonsense":   {program(t, "echo hello"), smi, fromSMI, ""},
		"no helper":               {"", smi, fromSMI, ""},
		"helper not installed":    {missing, "no-such-nvidia-smi", nil, ""},
		"no source":               {"", "", nil, ""},
		"no driver at all":        {noDriver, noDriver, nil, ""},
		"no devices":              {"", program(t, "echo No devices were found"), nil, ""},
		"nothing but a crash":     {crash, missing, nil, "list GPUs with " + crash + ": signal: segmentation fault"},
		"nothing but nonsense":    {"", program(t, "echo what"), nil, `: expected 7 or 8 values in "what"`},
	}
	root := fstest.MapFS{"dev/nvidiactl": {}, "sys/bus/pci/devices/0000:07:00.0/numa_node": {Data: []byte("3\n")}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := List(t.Context(), Sources{Root: root, Helper: tt.helper, SMI: at(tt.smi)})
			check.That(t, reflect.DeepEqual(got, tt.want), "List = %+v\nwant %+v", got, tt.want)
			check.That(t, (err == nil) == (tt.err == "") && (err == nil || strings.Contains(err.Error(), tt.err)),
				"err = %v, want %q", err, tt.err)
		})
	}
}

func TestListEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := List(ctx, Sources{Root: fstest.MapFS{"dev/nvidiactl": {}}, SMI: at(program(t, "exec sleep 60"))})
	check.That(t, errors.Is(err, context.DeadlineExceeded), "err = %v", err)
	took := time.Since(start)
	check.That(t, took <= 20*time.Second, "List took %v to stop", took)
}

// Whatever this machine is, it can be listed.
func TestListThisMachine(t *testing.T) {
	devices := must.Get(List(t.Context(), Machine("")))(t)
	for i, d := range devices {
		check.That(t, d.Index == i && d.BusID != "" && d.Name != "", "device %d is %+v", i, d)
	}
}

func TestParseBusID(t *testing.T) {
	for in, want := range map[string]string{
		"0000:3b:00.0":     "0000:3b:00.0",
		"00000000:3B:1F.7": "0000:3b:1f.7",
		"00010000:01:00.0": "10000:01:00.0",
		"10000:01:00.0":    "10000:01:00.0",
		"":                 "",
		"0000:3b:00":       "",
		"3b:00.0":          "",
		"0000:3b:20.0":     "",
		"0000:3b:00.8":     "",
		"0000:../b:00.0":   "",
		" 0000:3b:00.0":    "",
	} {
		if got, err := parseBusID(in); got != want || (err == nil) != (want != "") {
			t.Errorf("parseBusID(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func FuzzParseSMI(f *testing.F) {
	csv := must.Get(os.ReadFile("testdata/smi.csv"))(f)
	f.Add(string(csv))
	f.Add("No devices were found\n")
	f.Add("0,,,,18446744073709551615,,")
	f.Fuzz(func(t *testing.T, s string) {
		devices, err := parseSMI(s)
		if err == nil {
			checkDevices(t, devices)
		}
	})
}

func FuzzParseInventory(f *testing.F) {
	f.Add([]byte(`{"devices": [{"index": 0, "bus_id": "00000000:3B:00.0", "memory_bytes": 1}]}`))
	f.Add([]byte(`{"devices": [{"index": 1}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, s []byte) {
		devices, err := parseInventory(s)
		if err == nil {
			checkDevices(t, devices)
		}
	})
}

func FuzzParseInformation(f *testing.F) {
	f.Add("Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-1\nGPU Excluded:\t No\n")
	f.Add("GPU Excluded:\t Yes\nModel")
	f.Add("GPU UUID: GPU-????\nModel::\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		d, _ := parseInformation(s)
		check.That(t, d.NUMANode == -1 && !strings.Contains(d.UUID, "?") && !strings.ContainsAny(d.Name+d.UUID, "\n"),
			"parseInformation(%q) = %+v", s, d)
	})
}

// checkDevices checks that devices can be assigned and that their addresses are
// spelt in the one way.
func checkDevices(t *testing.T, devices []Device) {
	assigned, err := Assign(devices, Request{Ranks: 1})
	must.OK(t, err, assigned)
	for _, d := range devices {
		again, err := parseBusID(d.BusID)
		check.That(t, again == d.BusID, "bus id %q is spelt %q the second time (%v)", d.BusID, again, err)
	}
}
