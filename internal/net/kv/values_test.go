package kv

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"runtime"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// answer is a http.ResponseWriter.
type answer struct {
	bytes.Buffer
	header http.Header
}

func (a *answer) Header() http.Header { return a.header }
func (*answer) WriteHeader(int)       {}

// The values of a fence take little memory beside what a rank has read: all ranks of a host get
// them at a time.
func TestAnswersToFencesTakeLittleMemory(t *testing.T) {
	var values [][]byte
	for range 128 {
		values = append(values, make([]byte, MaxFence))
	}
	a := &answer{header: http.Header{}}
	a.Grow(16 << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	writeValues(a, values)
	runtime.ReadMemStats(&after)
	more := after.TotalAlloc - before.TotalAlloc
	check.That(t, more < 1<<20, "%d KiB for %d KiB of values", more>>10, len(values)*MaxFence>>10)
	for _, want := range [][][]byte{values, {}, {[]byte("a"), {}, {255}}} {
		a.Reset()
		writeValues(a, want)
		var got struct{ Values [][]byte }
		must.OK(t, json.Unmarshal(a.Bytes(), &got))
		check.That(t, reflect.DeepEqual(got.Values, want), "%d values of %d", len(got.Values), len(want))
	}
}
