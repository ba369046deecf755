package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/check"
)

func TestRunPrintsTheInventory(t *testing.T) {
	devices := []gpu.Device{{Index: 0, UUID: "GPU-1", BusID: "ffff:00:00.0", Name: "A100", NUMANode: -1,
		MemoryBytes: 40 << 30}}
	var stdout, stderr bytes.Buffer
	if code := run(func() ([]gpu.Device, error) {
		return devices, nil
	}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("code %d, stderr %q", code, &stderr)
	}
	var inv gpu.Inventory
	err := json.Unmarshal(stdout.Bytes(), &inv)
	check.That(t, err == nil && reflect.DeepEqual(inv.Devices, devices), "printed %s (%v)", &stdout, err)
}

func TestRunWithoutADriver(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(func() ([]gpu.Device, error) { return nil, errors.New("no NVIDIA driver") }, &stdout, &stderr)
	check.That(t, code == 1 && stdout.Len() == 0 && stderr.String() == "gorun-gpu: no NVIDIA driver\n",
		"code %d, stdout %q, stderr %q", code, &stdout, &stderr)
}
