package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func sample() watch.Sample {
	busy := 50.0
	used := int64(9)
	return watch.Sample{
		At:      time.Unix(1000, 0),
		Seconds: 10,
		Size:    3,
		Ranks: []watch.Rank{{Rank: 0, Host: "f\"1\\\n\xff", State: "R", CPUTotal: 1.5, Memory: 1 << 40, GPUBusy: &busy,
			GPUMemory: &used, LinesTotal: 7,
			Ring: &watch.Ring{
				CallsTotal:   5,
				BytesTotal:   1 << 50,
				TimeTotal:    2.5,
				PendingTotal: 0.25,
			}},
			{Rank: 1, Host: "f1", State: watch.Ended, Exit: &watch.Exit{Signal: 9}},
			{Rank: 2, Host: "f2", State: watch.Waiting}},
		Hosts: []watch.Host{{Host: "f1", CPUs: 4, GPUs: []watch.GPU{{Index: 0, UUID: "GPU-a", Busy: -1, Memory: 80},
			{Index: 1, Busy: 100}}}, {Host: "f2", Age: -1}},
	}
}

// parse reads a document as node_exporter does.
func parse(t *testing.T, document []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(document))
	must.That(t, err == nil, "%v in\n%s", err, document)
	return all
}

func TestPrometheusReadsTheMetrics(t *testing.T) {
	all := parse(t, Prometheus.Text(Job{"g7k2", "train"}, sample()))
	value := func(name string, labels ...string) float64 {
		for _, m := range all[name].GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			check.That(t, have["id"] == "g7k2" && have["name"] == "train", "%s: %v", name, have)
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
		{1 << 40, "gorun_rank_resident_memory_bytes", []string{"rank", "0"}},
		{0.5, "gorun_rank_gpu_busy_ratio", []string{"rank", "0"}},
		{7, "gorun_rank_output_lines_total", []string{"rank", "0"}}, {4, "gorun_host_cpus", []string{"host", "f1"}},
		{5, "gorun_rank_collective_calls_total", []string{"rank", "0"}},
		{1 << 50, "gorun_rank_collective_bytes_total", []string{"rank", "0"}},
		{2.5, "gorun_rank_collective_seconds_total", []string{"rank", "0"}},
		{0.25, "gorun_rank_tensors_pending_seconds_total", []string{"rank", "0"}},
		{1, "gorun_gpu_busy_ratio", []string{"host", "f1", "gpu", "1"}},
	} {
		check.Equal(t, value(tc.name, tc.labels...), tc.want, tc.name, tc.labels)
	}
	if n := len(all["gorun_host_cpus"].GetMetric()) + len(all["gorun_gpu_busy_ratio"].GetMetric()) + len(
		all["gorun_rank_threads"].GetMetric()) + len(all["gorun_rank_collective_calls_total"].GetMetric()); n != 4 {
		t.Errorf("%d series of what is known", n)
	}
}

// A spare has the number of a rank that it would be, which one of its host may have already.
func TestEachSeriesIsThereOnce(t *testing.T) {
	s := watch.Sample{Size: 2, Ranks: []watch.Rank{
		{Rank: 0, Host: "f1", State: "Z", Threads: 1}, // it has failed
		{Rank: 0, Host: "f1", State: "R", Threads: 2},
		{Rank: 1, Host: "f1", State: watch.Spare, Threads: 3},
		{Rank: 1, Host: "f1", State: "R", Threads: 4},
		{Rank: 1, Host: "f1", State: watch.Spare, Threads: 5},
		{Rank: 1, Host: "f2", State: watch.Spare, Threads: 6},
	}}
	for _, format := range []Format{Prometheus, OpenMetrics} {
		seen := map[string]bool{}
		for line := range strings.Lines(string(format.Text(Job{}, s))) {
			name := line[:strings.LastIndex(line, " ")]
			check.That(t, strings.HasPrefix(line, "#") || !seen[name], "%s is there again", name)
			seen[name] = true
		}
	}
	var threads []float64
	for _, m := range parse(t, Prometheus.Text(Job{}, s))["gorun_rank_threads"].GetMetric() {
		threads = append(threads, m.GetGauge().GetValue())
	}
	check.That(t, slices.Equal(threads, []float64{2, 4, 6}), "threads %v", threads)
}

// Names follow Prometheus's conventions: sums and only they end in _total, and units are bytes,
// seconds or ratios.
func TestNamesAndUnits(t *testing.T) {
	for name, f := range parse(t, Prometheus.Text(Job{}, sample())) {
		check.That(t, strings.HasSuffix(name, "_total") == (f.GetType() == dto.MetricType_COUNTER) &&
			f.GetHelp() != "" && strings.HasSuffix(f.GetHelp(), ".") && !strings.Contains(name, "percent"),
			"%s is a %v: %s", name, f.GetType(), f.GetHelp())
	}
}

// The OpenMetrics document is what Prometheus's own encoder makes of the same metrics, and its
// parser accepts it.
func TestOpenMetrics(t *testing.T) {
	all := parse(t, Prometheus.Text(Job{"g7k2", "train"}, sample()))
	var want bytes.Buffer
	for _, f := range all {
		unit := ""
		for _, u := range []string{"seconds", "bytes", "ratio"} {
			if strings.HasSuffix(strings.TrimSuffix(f.GetName(), "_total"), "_"+u) {
				unit = u
			}
		}
		if unit != "" {
			f.Unit = &unit
		}
		must.Get(expfmt.MetricFamilyToOpenMetrics(&want, f))(t)
	}
	must.Get(expfmt.FinalizeOpenMetrics(&want))(t)
	got := string(OpenMetrics.Text(Job{"g7k2", "train"}, sample()))
	check.That(t, strings.HasSuffix(got, "\n# EOF\n") && strings.Count(got, "# EOF") == 1,
		"the end is missing:\n%s", got)
	families := 0
	for decoder := expfmt.NewDecoder(strings.NewReader(got), expfmt.NewFormat(expfmt.TypeOpenMetrics)); ; families++ {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
	}
	check.That(t, families == len(all), "%d families of %d", families, len(all))
	// The order of families is free, and so is the notation of numbers.
	number := regexp.MustCompile(`(?m) [0-9.e+]+$`)
	lines := func(text string) []string {
		all := strings.Split(number.ReplaceAllStringFunc(text, func(n string) string {
			v, err := strconv.ParseFloat(n[1:], 64)
			check.OK(t, err)
			return fmt.Sprint(" ", v)
		}), "\n")
		slices.Sort(all)
		return all
	}
	g := lines(got)
	w := lines(want.String())
	check.That(t, slices.Equal(g, w), "got\n%s\nwant\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
}

func TestReadersSeeWholeFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gorun.prom")
	target := must.Get(OpenFile(path))(t)
	old, err := os.Open(path) // a reader that is slow
	must.OK(t, err)
	defer old.Close()
	for range 2 {
		must.OK(t, target.Put(Job{}, sample()))
	}
	if text, err := io.ReadAll(old); err != nil || len(text) != 0 {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Stat(path)
	check.That(t, err == nil && info.Mode().Perm() == 0o644 &&
		info.Size() == int64(len(Prometheus.Text(Job{}, sample()))), "%v, %v", info, err)
	check.OK(t, target.Close())
	left, _ := os.ReadDir(dir)
	check.That(t, len(left) == 0, "left %v", left)
	must.OK(t, os.Symlink("elsewhere", path))
	check.Error(OpenFile(path)).Any(t, "a link is replaced")
	check.Error(OpenFile(filepath.Join(dir, "none", "x"))).Any(t, "a folder is made up")
}

func TestServer(t *testing.T) {
	s := must.Get(Listen(netip.MustParseAddrPort("127.0.0.1:0")))(t)
	defer s.Close()
	must.OK(t, s.Put(Job{"g7k2", "train"}, sample()))
	for accept, format := range map[string]Format{"": Prometheus, "text/plain": Prometheus,
		"application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1": OpenMetrics} {
		request := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.URL(), nil))(t)
		request.Header.Set("Accept", accept)
		answer := must.Get(http.DefaultClient.Do(request))(t)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		check.That(t, err == nil && bytes.Equal(text, format.Text(Job{"g7k2", "train"}, sample())) &&
			answer.Header.Get("Content-Type") == format.ContentType(),
			"%s: %q, %v, %v", accept, text, answer.Header, err)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{":9400": "127.0.0.1:9400", "localhost:1": "127.0.0.1:1",
		"[::1]:9400": "[::1]:9400", "0.0.0.0:9400": "0.0.0.0:9400",
		"gorun.prom": "", "dir/x:1": "", "127.0.0.1:99999": "", "127.0.0.1": "", "": ""} {
		at, is := Address(text)
		check.That(t, is == (want != "") && (!is || at.String() == want), "%q: %v, %v", text, at, is)
	}
}
