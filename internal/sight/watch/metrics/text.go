// Package metrics offers the use of a job's ranks and hosts to Prometheus: as a file for
// node_exporter's textfile collector, or over HTTP.
package metrics

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/sight/watch"
)

// Job names the job in all series.
type Job struct{ ID, Name string }

// Format is a text format of metrics.
type Format int

// Formats. They name counters' families and units differently, so a document has one format.
const (
	Prometheus  Format = iota // 0.0.4, which node_exporter's collector reads, and promtool
	OpenMetrics               // 1.0.0
)

// ContentType is the media type of a format.
func (f Format) ContentType() string {
	if f == OpenMetrics {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

// kinds of metrics.
const (
	gauge   = "gauge"
	counter = "counter"
)

// text builds a document of metrics. The series of a metric are adjacent, as the format demands.
type text struct {
	b      bytes.Buffer
	format Format
	base   string // labels of all series
}

// label formats one label: the format has three escapes.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`,
		`\"`).Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}

func (t *text) family(name, kind, help string) {
	if t.format == OpenMetrics {
		name = strings.TrimSuffix(name, "_total") // its series have the suffix
		for _, unit := range []string{"seconds", "bytes", "ratio"} {
			if strings.HasSuffix(name, "_"+unit) {
				defer t.b.WriteString("# UNIT " + name + " " + unit + "\n")
			}
		}
	}
	t.b.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

func (t *text) series(name, labels string, value float64) {
	if labels != "" {
		labels = "," + labels
	}
	t.b.WriteString(name + "{" + t.base + labels + "} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

// Text formats a sample.
func (f Format) Text(j Job, s watch.Sample) []byte {
	t := &text{format: f, base: label("id", j.ID) + "," + label("name", j.Name)}
	run := 0
	for _, r := range s.Ranks {
		if runs(r) {
			run++
		}
	}
	t.one("gorun_ranks", gauge, "Ranks of the job.", float64(s.Size))
	t.one("gorun_ranks_running", gauge, "Ranks that run.", float64(run))
	if s.Seconds > 0 {
		t.one("gorun_start_time_seconds", gauge, "When the ranks were started, in seconds since 1970.",
			float64(s.At.UnixNano())/1e9-s.Seconds)
	}
	t.ranks(once(s.Ranks))
	t.hosts(s.Hosts)
	if f == OpenMetrics {
		t.b.WriteString("# EOF\n")
	}
	return t.b.Bytes()
}

// once returns one process for each rank of a host: a document with two series of one name is
// refused as a whole. A spare, which has the number of the rank that it would be, makes way for the
// rank, and a process that ends for the one that takes its place.
func once(all []watch.Rank) (ranks []watch.Rank) {
	type series struct {
		host string
		rank int
	}
	places := map[series]int{} // index in ranks
	for _, r := range all {
		at, twice := places[series{r.Host, r.Rank}]
		switch {
		case !twice:
			places[series{r.Host, r.Rank}] = len(ranks)
			ranks = append(ranks, r)
		case r.State != watch.Spare || ranks[at].State == watch.Spare:
			ranks[at] = r
		}
	}
	return ranks
}

func runs(r watch.Rank) bool { return r.Exit == nil && r.State != watch.Waiting }

func (t *text) one(name, kind, help string, value float64) {
	t.family(name, kind, help)
	t.series(name, "", value)
}

func (t *text) ranks(all []watch.Rank) {
	for _, m := range []struct {
		name, kind, help string
		value            func(watch.Rank) (float64, bool)
	}{
		{"gorun_rank_running", gauge, "Whether the rank runs.", func(r watch.Rank) (float64, bool) {
			return one(runs(r)), true
		}},
		{"gorun_rank_exit_code", gauge, "Exit code of a rank that has ended, 128 plus the signal that ended it.",
			func(r watch.Rank) (float64, bool) {
				if r.Exit == nil {
					return 0, false
				}
				if r.Exit.Signal != 0 {
					return float64(128 + r.Exit.Signal), true
				}
				return float64(r.Exit.Code), true
			}},
		{"gorun_rank_cpu_seconds_total", counter, "User and system time of the rank and its descendants.",
			func(r watch.Rank) (float64, bool) { return r.CPUTotal, runs(r) }},
		{"gorun_rank_resident_memory_bytes", gauge, "Resident memory of the rank and its descendants.",
			func(r watch.Rank) (float64, bool) { return float64(r.Memory), runs(r) }},
		{"gorun_rank_processes", gauge, "The rank and its descendants.", func(r watch.Rank) (float64, bool) {
			return float64(r.Processes), runs(r)
		}},
		{"gorun_rank_threads", gauge, "Their threads.", func(r watch.Rank) (float64, bool) {
			return float64(r.Threads), runs(r)
		}},
		{"gorun_rank_storage_read_bytes_total", counter, "Bytes that they read from storage.",
			func(r watch.Rank) (float64, bool) { return float64(r.ReadTotal), runs(r) }},
		{"gorun_rank_storage_written_bytes_total", counter, "Bytes that they wrote to storage.",
			func(r watch.Rank) (float64, bool) { return float64(r.WrittenTotal), runs(r) }},
		{"gorun_rank_output_lines_total", counter, "Lines of its stdout and stderr.",
			func(r watch.Rank) (float64, bool) { return float64(r.LinesTotal), true }},
		{"gorun_rank_output_bytes_total", counter, "Bytes of its stdout and stderr.",
			func(r watch.Rank) (float64, bool) { return float64(r.OutputTotal), true }},
		{"gorun_rank_collective_calls_total", counter, "Collectives and messages of ring that the rank has finished.",
			ofRing(func(r *watch.Ring) float64 { return float64(r.CallsTotal) })},
		{"gorun_rank_collective_bytes_total", counter, "Bytes of their vectors.", ofRing(func(r *watch.Ring) float64 {
			return float64(r.BytesTotal)
		})},
		{"gorun_rank_collective_seconds_total", counter, "Time that the rank spent in calls of ring.",
			ofRing(func(r *watch.Ring) float64 { return r.TimeTotal })},
		{"gorun_rank_tensors_pending_seconds_total", counter, "Time in which named tensors of the rank were pending.",
			ofRing(func(r *watch.Ring) float64 { return r.PendingTotal })},
		{"gorun_rank_gpu_busy_ratio", gauge,
			"Part of the time in which the GPUs assigned to the rank were busy, on average.",
			func(r watch.Rank) (float64, bool) {
				if r.GPUBusy == nil {
					return 0, false
				}
				return *r.GPUBusy / 100, runs(r)
			}},
		{"gorun_rank_gpu_memory_used_bytes", gauge, "Memory in use on the GPUs assigned to the rank.",
			func(r watch.Rank) (float64, bool) {
				if r.GPUMemory == nil {
					return 0, false
				}
				return float64(*r.GPUMemory), runs(r)
			}},
	} {
		first := true
		for _, r := range all {
			if v, known := m.value(r); known {
				if first {
					t.family(m.name, m.kind, m.help)
				}
				first = false
				t.series(m.name, label("rank", strconv.Itoa(r.Rank))+","+label("host", r.Host), v)
			}
		}
	}
}

// ofRing is a number of ranks that have joined the job by ring.
func ofRing(value func(*watch.Ring) float64) func(watch.Rank) (float64, bool) {
	return func(r watch.Rank) (float64, bool) {
		if r.Ring == nil {
			return 0, false
		}
		return value(r.Ring), runs(r)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (t *text) hosts(all []watch.Host) {
	for _, m := range []struct {
		name, kind, help string
		value            func(watch.Host) float64
	}{
		{"gorun_host_cpus", gauge, "CPUs of the host.", func(h watch.Host) float64 { return float64(h.CPUs) }},
		{"gorun_host_cpu_seconds_total", counter, "Time in which CPUs of the host were busy, whoever used them.",
			func(h watch.Host) float64 { return h.CPUTotal }},
		{"gorun_host_memory_bytes", gauge, "Memory of the host.", func(h watch.Host) float64 {
			return float64(h.Memory)
		}},
		{"gorun_host_memory_used_bytes", gauge, "Memory that is not available.", func(h watch.Host) float64 {
			return float64(h.Used)
		}},
		{"gorun_host_disk_read_bytes_total", counter, "Bytes read from disks.", func(h watch.Host) float64 {
			return float64(h.ReadTotal)
		}},
		{"gorun_host_disk_written_bytes_total", counter, "Bytes written to disks.", func(h watch.Host) float64 {
			return float64(h.WrittenTotal)
		}},
		{"gorun_host_network_received_bytes_total", counter, "Bytes received by networks.", func(h watch.Host) float64 {
			return float64(h.ReceivedTotal)
		}},
		{"gorun_host_network_sent_bytes_total", counter, "Bytes sent by networks.", func(h watch.Host) float64 {
			return float64(h.SentTotal)
		}},
	} {
		first := true
		for _, h := range all {
			if h.Age >= 0 {
				if first {
					t.family(m.name, m.kind, m.help)
				}
				first = false
				t.series(m.name, label("host", h.Host), m.value(h))
			}
		}
	}
	for _, m := range []struct {
		name, help string
		value      func(watch.GPU) (float64, bool)
	}{
		{"gorun_gpu_busy_ratio", "Part of the time in which the GPU was busy.", func(g watch.GPU) (float64, bool) {
			return float64(g.Busy) / 100, g.Busy >= 0
		}},
		{"gorun_gpu_memory_bytes", "Memory of the GPU.", func(g watch.GPU) (float64, bool) {
			return float64(g.Memory), true
		}},
		{"gorun_gpu_memory_used_bytes", "Memory in use.", func(g watch.GPU) (float64, bool) {
			return float64(g.Used), true
		}},
	} {
		first := true
		for _, h := range all {
			for _, g := range h.GPUs {
				if v, known := m.value(g); known {
					if first {
						t.family(m.name, gauge, m.help)
					}
					first = false
					t.series(m.name, label("host", h.Host)+","+label("gpu", strconv.Itoa(g.Index))+","+
						label("uuid", g.UUID), v)
				}
			}
		}
	}
}
