package doctor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// thanBefore begins the kind of a finding that compares with a baseline.
const thanBefore = "than before: "

// Against returns findings where a measurement is worse than, or differs from, an earlier one of
// the same hosts.
func Against(base, now Measured) (findings []Finding) {
	j := &judge{Measured: now}
	for _, name := range now.Names {
		was, known := base.Hosts[name]
		is := now.Hosts[name]
		if !known || is.Error != "" || was.Error != "" {
			continue
		}
		for _, m := range j.measures() {
			old, okOld := m.of(was)
			value, ok := m.of(is)
			if !ok || !okOld || old <= 0 || math.Abs(value-old) < m.least {
				continue
			}
			if times := value / old; m.less && times < m.warn || !m.less && times > m.warn {
				j.timed(about(name, Warning, m.kind, strings.ReplaceAll(m.fix, "HOST", name),
					"%s %s, and in the baseline %s", m.what, m.show(value), m.show(old)).than(times, 0).sinceBaseline())
			}
		}
		if was.Facts != nil && is.Facts != nil {
			j.changed(name, *was.Facts, *is.Facts)
		}
	}
	before := (&judge{Measured: base}).views()
	after := j.views()
	for i, name := range now.Names {
		old := slices.Index(base.Names, name)
		if old < 0 {
			continue
		}
		was := before[old]
		is := after[i]
		a := median(was.rtt)
		b := median(is.rtt)
		if a > 0 && b > farTimes*a && b-a > farLeast {
			j.timed(about(name, Warning, "latency", "", "a round trip takes %s, and in the baseline %s", Seconds(b),
				Seconds(a)).than(b/a, 0).sinceBaseline())
		}
		for way, values := range map[string][2][]float64{"sends": {was.out, is.out}, "receives": {was.in, is.in}} {
			a := middle(values[0], true)
			b := middle(values[1], true)
			if a > 0 && b > 0 && b < 0.7*a {
				j.timed(about(name, Warning, way, "", "it %s at %s, and in the baseline at %s", way, rate(b),
					rate(a)).than(b/a, 0).sinceBaseline())
			}
		}
	}
	order(j.findings, now.Names)
	return j.findings
}

// changed finds facts that have changed.
func (j *judge) changed(name string, was, is Facts) {
	note := func(what, old, value string) {
		if old != value {
			j.is(name, Warning, thanBefore+what, "", "%s is %s, and was %s in the baseline", what, orNone(value),
				orNone(old))
		}
	}
	note("kernel", was.Kernel, is.Kernel)
	note("libc", was.Libc, is.Libc)
	note("cores", fmt.Sprint(was.Cores), fmt.Sprint(is.Cores))
	all := maps.Clone(was.Versions)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, is.Versions)
	for _, what := range slices.Sorted(maps.Keys(all)) {
		note(what, was.Versions[what], is.Versions[what])
	}
	if math.Abs(float64(is.Memory-was.Memory)) > 0.05*float64(was.Memory) {
		note("memory", size(was.Memory), size(is.Memory))
	}
}
