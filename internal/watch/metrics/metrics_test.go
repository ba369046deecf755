package metrics

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gorun/gorun/internal/watch"
)

func sample() watch.Sample {
	busy, used := 50.0, int64(9)
	return watch.Sample{At: time.Unix(1000, 0), Seconds: 10, Size: 3,
		Ranks: []watch.Rank{{Rank: 0, Host: "f\"1\\\n\xff", State: "R", CPUTotal: 1.5, Memory: 1 << 40, GPUBusy: &busy, GPUMemory: &used, LinesTotal: 7},
			{Rank: 1, Host: "f1", State: watch.Ended, Exit: &watch.Exit{Signal: 9}}, {Rank: 2, Host: "f2", State: watch.Waiting}},
		Hosts: []watch.Host{{Host: "f1", CPUs: 4, GPUs: []watch.GPU{{Index: 0, UUID: "GPU-a", Busy: -1, Memory: 80}, {Index: 1, Busy: 100}}}, {Host: "f2", Age: -1}}}
}

// parse reads a document as node_exporter does.
func parse(t *testing.T, document []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(document))
	if err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return all
}

func TestPrometheusReadsTheMetrics(t *testing.T) {
	all := parse(t, Text(Job{"g7k2", "train"}, sample()))
	value := func(name string, labels ...string) float64 {
		for _, m := range all[name].GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			if have["id"] != "g7k2" || have["name"] != "train" {
				t.Errorf("%s: %v", name, have)
			}
			match := true
			for i := 0; i < len(labels); i += 2 {
				match = match && have[labels[i]] == labels[i+1]
			}
			if match {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return math.NaN()
	}
	for _, tc := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{3, "gorun_ranks", nil}, {1, "gorun_ranks_running", nil}, {990, "gorun_start_time_seconds", nil},
		{1.5, "gorun_rank_cpu_seconds_total", []string{"rank", "0", "host", "f\"1\\\n\uFFFD"}},
		{137, "gorun_rank_exit_code", []string{"rank", "1"}}, {0, "gorun_rank_running", []string{"rank", "2"}},
		{1 << 40, "gorun_rank_resident_memory_bytes", []string{"rank", "0"}}, {0.5, "gorun_rank_gpu_busy_ratio", []string{"rank", "0"}},
		{7, "gorun_rank_output_lines_total", []string{"rank", "0"}}, {4, "gorun_host_cpus", []string{"host", "f1"}},
		{1, "gorun_gpu_busy_ratio", []string{"host", "f1", "gpu", "1"}},
	} {
		if got := value(tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s %q is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	if n := len(all["gorun_host_cpus"].GetMetric()) + len(all["gorun_gpu_busy_ratio"].GetMetric()) + len(all["gorun_rank_threads"].GetMetric()); n != 3 {
		t.Errorf("%d series of what is known", n)
	}
}

// Names follow Prometheus's conventions: sums and only they end in _total, and units are bytes, seconds or ratios.
func TestNamesAndUnits(t *testing.T) {
	for name, f := range parse(t, Text(Job{}, sample())) {
		if strings.HasSuffix(name, "_total") != (f.GetType() == dto.MetricType_COUNTER) || f.GetHelp() == "" || !strings.HasSuffix(f.GetHelp(), ".") || strings.Contains(name, "percent") {
			t.Errorf("%s is a %v: %s", name, f.GetType(), f.GetHelp())
		}
	}
}

func TestReadersSeeWholeFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gorun.prom")
	target, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(path) // a reader that is slow
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for range 2 {
		if err := target.Put([]byte("document")); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := io.ReadAll(old); err != nil || len(text) != 0 {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 || info.Size() != 8 {
		t.Errorf("%v, %v", info, err)
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path); err == nil {
		t.Error("a link is replaced")
	}
	if _, err := OpenFile(filepath.Join(dir, "none", "x")); err == nil {
		t.Error("a folder is made up")
	}
}

func TestServer(t *testing.T) {
	s, err := Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put([]byte("gorun_ranks 3\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != "gorun_ranks 3\n" || answer.Header.Get("Content-Type") != ContentType {
		t.Errorf("%q, %v, %v", text, answer.Header, err)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{":9400": "127.0.0.1:9400", "localhost:1": "127.0.0.1:1", "[::1]:9400": "[::1]:9400", "0.0.0.0:9400": "0.0.0.0:9400",
		"gorun.prom": "", "dir/x:1": "", "127.0.0.1:99999": "", "127.0.0.1": "", "": ""} {
		if at, is := Address(text); is != (want != "") || is && at.String() != want {
			t.Errorf("%q: %v, %v", text, at, is)
		}
	}
}
