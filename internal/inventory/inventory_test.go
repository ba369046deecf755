package inventory

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/memexec"
	"github.com/gorun/gorun/internal/wire"
)

// box is a host with a GPU.
func box() fs.FS {
	return fstest.MapFS{"proc/driver/nvidia/gpus/0000:07:00.0/information": {Data: []byte("Model: A100\nDevice Minor: 0\nGPU UUID: GPU-1\n")}}
}

// ask joins both halves by pipes.
func ask(t *testing.T, root fs.FS, program func() ([]byte, error)) (gpu.Inventory, error) {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), in, out, Options{Nonce: "n", Build: "b", Sources: gpu.Sources{Root: root}})
		out.Close()
	}()
	if _, err := wire.FindPreamble(from, "n"); err != nil {
		t.Fatal(err)
	}
	inv, err := Ask(to, from, "b", program)
	to.Close()
	from.Close()
	<-served
	return inv, err
}

func packed(script string) func() ([]byte, error) {
	return func() ([]byte, error) { return memexec.Pack([]byte("#!/bin/sh\n" + script)) }
}

func TestHostWithAGPU(t *testing.T) {
	device := gpu.Device{BusID: "0000:07:00.0", Name: "A100", UUID: "GPU-1", NUMANode: -1, Utilization: -1}
	told := device
	told.Name, told.MemoryBytes, told.NVLinks = "NVIDIA A100", 1024, map[int]int{3: 12}
	for name, tt := range map[string]struct {
		program func() ([]byte, error)
		want    gpu.Device
		warning string
	}{
		"gorun-gpu": {packed(`echo '{"devices": [{"index": 0, "bus_id": "0000:07:00.0", "name": "NVIDIA A100", "memory_bytes": 1024, "nvlinks": {"3": 12}}]}'`), told, ""},
		"a crash":   {packed("kill -SEGV $$"), device, "list GPUs with gorun-gpu: signal: segmentation fault"},
		"a binary":  {func() ([]byte, error) { b, err := os.ReadFile("/bin/true"); p, _ := memexec.Pack(b); return p, err }, device, "list GPUs with gorun-gpu: read its inventory: unexpected end"},
		"none":      {func() ([]byte, error) { return nil, nil }, device, "neither gorun-gpu nor nvidia-smi"},
		"no gzip":   {func() ([]byte, error) { return []byte("x"), nil }, device, "receive gorun-gpu: "},
	} {
		t.Run(name, func(t *testing.T) {
			inv, err := ask(t, box(), tt.program)
			if err != nil || len(inv.Devices) != 1 || !reflect.DeepEqual(inv.Devices[0], tt.want) {
				t.Errorf("%+v, %v\nwant %+v", inv, err, tt.want)
			}
			if all := strings.Join(inv.Warnings, "\n"); (all == "") != (tt.warning == "") || !strings.Contains(all, tt.warning) {
				t.Errorf("warnings %q, want %q", all, tt.warning)
			}
		})
	}
}

func TestHostWithoutAGPUIsSentNothing(t *testing.T) {
	inv, err := ask(t, fstest.MapFS{}, func() ([]byte, error) {
		t.Error("gorun-gpu was to be sent")
		return nil, nil
	})
	if err != nil || len(inv.Devices)+len(inv.Warnings) > 0 {
		t.Errorf("%+v, %v", inv, err)
	}
}

func TestProgramThatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	if _, err := ask(t, box(), func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestHostsHalfFails(t *testing.T) {
	// A directory cannot be read as a file: /proc is broken, and there is no other source.
	bad := fstest.MapFS{"proc/driver/nvidia/gpus/what/information": {Data: []byte("Model: A100\n")}}
	_, err := ask(t, bad, func() ([]byte, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), `"what" is not a PCI address`) {
		t.Error(err)
	}
}

type ended struct{ io.Writer }

func (ended) Close() error { return nil }

func TestHostsThatTalkNonsense(t *testing.T) {
	for said, want := range map[string]string{
		"":                              "read its greeting: EOF",
		"welcome\n":                     "read its greeting: invalid character",
		`{"build": "c", "want": true}`:  ErrOtherBuild.Error(),
		`{"build": "b"}`:                "read its inventory: EOF",
		`{"build": "b"}` + "\n[1]":      "read its inventory: json: ",
		`{"build": "b"}{"error": "no"}`: "no",
		`{"build": "b"}{"devices": [` + strings.Repeat(`{"index": 1}, `, 1<<20): "read its inventory: unexpected EOF",
	} {
		_, err := Ask(ended{io.Discard}, strings.NewReader(said), "b", func() ([]byte, error) { return nil, nil })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", said, err, want)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add(`{"build": "b", "want": true}{"devices": [{"index": 0, "nvlinks": {"1": 2}, "paths": {"1": 10}}], "warnings": ["w"]}`)
	f.Add(`{"build": "b"}{"error": "no"}`)
	f.Fuzz(func(t *testing.T, said string) {
		_, _ = Ask(ended{io.Discard}, strings.NewReader(said), "b", func() ([]byte, error) { return nil, nil })
	})
}

// What the host is sent it cannot keep: no folder has it.
func TestNothingIsWritten(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("HOME", tmp)
	inv, err := ask(t, box(), packed(`readlink /proc/self/fd/3 >&2; exit 1`))
	if err != nil || len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0], "memfd:gorun-gpu") {
		t.Errorf("%+v, %v", inv, err)
	}
	if entries, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
