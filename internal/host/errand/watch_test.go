package errand

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// next returns the next complete reading of errand 1: the lines up to that of the host.
func (h *fakeHost) next(text *bytes.Buffer) (all []wire.Reading) {
	h.t.Helper()
	for {
		line, err := text.ReadBytes('\n')
		if err != nil {
			text.Write(line)
			_, what, data := h.told()
			must.That(h.t, what == wire.TellOut, "told %d %s", what, data)
			text.Write(data)
			continue
		}
		var r wire.Reading
		must.OK(h.t, json.Unmarshal(line, &r))
		if all = append(all, r); r.Host != nil {
			return all
		}
	}
}

func TestReadingsComeUntilNobodyWaits(t *testing.T) {
	h := newHost(t)
	h.ask(wire.Ask{ID: 1, Kind: wire.AskWatch, Every: time.Millisecond})
	var text bytes.Buffer
	for range 2 {
		all := h.next(&text)
		check.That(t, len(all) == 2 && all[0].Rank.Rank == 4 && all[0].Rank.PID == os.Getpid() &&
			all[0].Rank.Memory != 0 && all[1].Host.CPUs != 0 && all[0].At != 0, "%+v", all)
	}
	h.tell(wire.TellEnd, nil)
	_, _, end := h.result()
	check.That(t, end == (wire.ErrandEnd{}), "%+v", end)
}

func TestReadingsHaveGPUs(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   []wire.GPUUse
		wrong  string
	}{
		{"echo '0, GPU-a, H100, 97, 81920, 1024'; echo '1, GPU-b, H100, [N/A], 81920, 0'; exec sleep 600",
			[]wire.GPUUse{{Index: 0, UUID: "GPU-a", Name: "H100", Busy: 97, Memory: 80 << 30, Used: 1 << 30},
				{Index: 1, UUID: "GPU-b", Name: "H100", Busy: -1, Memory: 80 << 30}}, ""},
		{"echo Failed to initialize NVML", nil, `nvidia-smi: expected 6 values in "Failed to initialize NVML"`},
		{"", nil, "find nvidia-smi: file does not exist"},
	} {
		dir := t.TempDir()
		theirs := t.TempDir() // is passed over, as others write there
		if tc.script != "" {
			must.OK(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700))
			must.OK(t, errors.Join(os.Chmod(theirs, 0o777),
				os.WriteFile(filepath.Join(theirs, "nvidia-smi"), []byte("#!/bin/sh\necho theirs\n"), 0o755)))
			dir = theirs + ":" + dir + ":" + os.Getenv("PATH")
		}
		t.Run(tc.script, func(t *testing.T) {
			t.Setenv("PATH", dir)
			h := newHost(t)
			h.gpus = true
			h.ask(wire.Ask{ID: 1, Kind: wire.AskWatch, Every: time.Hour})
			var text bytes.Buffer
			all := h.next(&text)
			got := all[len(all)-1].Host
			want := wire.HostUse{GPUs: tc.want, GPUProblem: tc.wrong}
			one, _ := json.Marshal(got.GPUs)
			other, _ := json.Marshal(want.GPUs)
			check.That(t, string(one) == string(other) && got.GPUProblem == tc.wrong, "%s, %s", one, got.GPUProblem)
			h.tell(wire.TellEnd, nil)
			h.result()
		})
	}
}
