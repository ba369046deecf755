package report

import (
	"math"

	"github.com/gorun/gorun/internal/sight/watch/record"
)

// data is a record reduced for charts: at most maxColumns times, each with the mean of some points.
type data struct {
	times []float64 // seconds since the start of the run
	end   float64   // end of the run, or the last time
	hosts []string
	rank  struct{ cpu, memory, read, write, lines, gpu, ring, share series }
	host  struct{ cpu, memory, in, out, gpu series }
	rows  []rankRow
	size  int
}

// rankRow sums up a rank's whole run.
type rankRow struct {
	rank      int
	host, end string
	cpu       float64 // mean
	memory    float64 // maximum, bytes
	share     float64 // mean percent of time in collectives; NaN: unknown
	lines     int64
	points    int
	shares    int
}

// maxCells bounds the cells of a sheet, and so the columns of a job with very many ranks.
const maxCells = 1 << 20

// sheet collects the sums of one metric: a column per time and a row per rank or host.
type sheet struct{ sum, n [][]float64 }

func newSheet(columns, rows int) sheet {
	s := sheet{}
	for range columns {
		s.sum = append(s.sum, make([]float64, rows))
		s.n = append(s.n, make([]float64, rows))
	}
	return s
}

func (s sheet) add(x, y int, v float64) {
	if x < len(s.sum) && y >= 0 && y < len(s.sum[x]) && !math.IsNaN(v) {
		s.sum[x][y] += v
		s.n[x][y]++
	}
}

// mean returns the series of means, or nil if it has no values.
func (s sheet) mean() (out series) {
	some := false
	for x := range s.sum {
		column := make([]float64, len(s.sum[x]))
		for y := range column {
			if column[y] = math.NaN(); s.n[x][y] > 0 {
				column[y] = s.sum[x][y] / s.n[x][y]
				some = true
			}
		}
		out = append(out, column)
	}
	if !some {
		return nil
	}
	return out
}

func collect(r record.Record) (d data) {
	if len(r.Points) == 0 {
		return d
	}
	const kib = 1 << 10
	const mib = 1 << 20
	d.size = r.Run.Size
	d.end = r.Points[len(r.Points)-1].At
	if !r.Run.Ended.IsZero() {
		d.end = max(d.end, r.Run.Ended.Sub(r.Run.Began).Seconds())
	}
	rowOf := map[string]int{} // row of a host
	for _, p := range r.Points {
		for _, n := range p.Ranks.Rank {
			d.size = max(d.size, min(n+1, 1<<20))
		}
		for _, h := range p.Hosts {
			if _, known := rowOf[h]; !known {
				rowOf[h] = len(d.hosts)
				d.hosts = append(d.hosts, h)
			}
		}
	}
	columns := min(len(r.Points), maxColumns, max(maxCells/max(d.size, len(d.hosts), 1), 1))
	d.times = make([]float64, columns)
	var ranks [8]sheet
	var hosts [5]sheet
	for i := range ranks {
		ranks[i] = newSheet(columns, d.size)
	}
	for i := range hosts {
		hosts[i] = newSheet(columns, len(d.hosts))
	}
	d.rows = make([]rankRow, d.size)
	earlier := 0.0 // time of the previous point
	for n, p := range r.Points {
		x := n * columns / len(r.Points)
		d.times[x] = p.At
		for i, cpu := range p.Ranks.CPU {
			y := i
			if p.Ranks.Rank != nil {
				y = p.Ranks.Rank[i]
			}
			if y < 0 || y >= d.size {
				continue
			}
			k := p.Ranks
			row := &d.rows[y]
			lines := max(0, k.Lines[i]-row.lines)
			row.lines += lines
			if cpu < 0 {
				continue
			}
			for j, v := range []float64{cpu, mib * float64(k.MiB[i]), kib * float64(k.Read[i]),
				kib * float64(k.Write[i]), rate(lines, p.At-earlier)} {
				ranks[j].add(x, y, v)
			}
			if k.GPU != nil && k.GPU[i] >= 0 {
				ranks[5].add(x, y, float64(k.GPU[i]))
			}
			if k.Ring != nil && k.Ring[i] >= 0 {
				ranks[6].add(x, y, kib*float64(k.Ring[i]))
				ranks[7].add(x, y, float64(k.Share[i]))
				row.share += float64(k.Share[i])
				row.shares++
			}
			row.cpu += cpu
			row.points++
			row.memory = max(row.memory, mib*float64(k.MiB[i]))
		}
		earlier = p.At
		for i, name := range p.Hosts {
			y := rowOf[name]
			h := p.Host
			for j, v := range []float64{h.CPU[i], h.Used[i], kib * float64(h.Received[i]), kib * float64(h.Sent[i])} {
				hosts[j].add(x, y, v)
			}
			if h.GPU != nil && h.GPU[i] >= 0 {
				hosts[4].add(x, y, float64(h.GPU[i]))
			}
		}
	}
	d.rank.cpu = ranks[0].mean()
	d.rank.memory = ranks[1].mean()
	d.rank.read = ranks[2].mean()
	d.rank.write = ranks[3].mean()
	d.rank.lines = ranks[4].mean()
	d.rank.gpu = ranks[5].mean()
	d.rank.ring = ranks[6].mean()
	d.rank.share = ranks[7].mean()
	d.host.cpu = hosts[0].mean()
	d.host.memory = hosts[1].mean()
	d.host.in = hosts[2].mean()
	d.host.out = hosts[3].mean()
	d.host.gpu = hosts[4].mean()
	for y := range d.rows {
		d.rows[y].rank = y
		d.rows[y].cpu /= math.Max(1, float64(d.rows[y].points))
		d.rows[y].share /= float64(d.rows[y].shares) // NaN without any
	}
	for _, p := range r.Run.Places {
		for _, n := range p.Ranks {
			if n >= 0 && n < len(d.rows) {
				d.rows[n].host = p.Host
			}
		}
	}
	for _, e := range r.Events {
		if e.What == "exited" && e.Rank >= 0 && e.Rank < len(d.rows) {
			d.rows[e.Rank].host = e.Host
			d.rows[e.Rank].end = e.Text
		}
	}
	return d
}

// rate returns a number per second; NaN if no time has passed.
func rate(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return math.NaN()
	}
	return float64(n) / seconds
}

// phase is a part of the run, and the ranks that differ most from the median.
type phase struct {
	from, to        float64
	median          float64
	least, most     int
	leastIs, mostIs float64
}

// phases divides the run into equal parts, and finds the ranks that stand out in s.
func (d data) phases(s series, n int) (all []phase) {
	if s == nil {
		return nil
	}
	n = min(n, len(d.times))
	for i := range n {
		from := i * len(d.times) / n
		to := (i + 1) * len(d.times) / n
		sums := newSheet(1, d.size)
		for x := from; x < to; x++ {
			for y, v := range s[x] {
				sums.add(0, y, v)
			}
		}
		means := sums.mean()
		if means == nil {
			continue
		}
		p := phase{
			from:  d.times[from],
			to:    d.times[min(to, len(d.times)-1)],
			least: -1,
			most:  -1,
		}
		for y, v := range means[0] {
			if math.IsNaN(v) {
				continue
			}
			if p.least < 0 || v < p.leastIs {
				p.least = y
				p.leastIs = v
			}
			if p.most < 0 || v > p.mostIs {
				p.most = y
				p.mostIs = v
			}
		}
		p.median = series{means[0]}.bands().middle[0]
		all = append(all, p)
	}
	return all
}
