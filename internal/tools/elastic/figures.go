package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// cell returns a table cell: the median of the runs that succeeded, and the fate of the others.
func cell(all []outcome) string {
	var parts []string
	if took := times(all, func(o outcome) time.Duration { return o.took }); len(took) > 0 {
		parts = append(parts, spread(took, 1))
	}
	if paused := times(all, func(o outcome) time.Duration { return o.paused }); len(paused) > 0 {
		parts = append(parts, "pause "+spread(paused, 2))
	}
	if loads := times(all, func(o outcome) time.Duration { return o.loads }); len(loads) > 0 {
		parts = append(parts, "it imports for "+spread(loads, 1))
	}
	said := map[string][]outcome{}
	for _, o := range all {
		if o.says != "" {
			said[o.says] = append(said[o.says], o)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(said)) {
		part := text
		if ended := times(said[text], func(o outcome) time.Duration { return o.ended }); len(ended) > 0 {
			part += ", after " + spread(ended, 1)
		}
		if n := len(said[text]); n < len(all) {
			part = fmt.Sprintf("%d of %d: %s", n, len(all), part)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// ratio returns how many times longer the other launcher took, if all runs succeeded.
func ratio(theirs, ours []outcome) string {
	took := func(o outcome) time.Duration { return o.took }
	a := times(theirs, took)
	b := times(ours, took)
	if len(a) == 0 || len(a) < len(theirs) || len(b) < len(ours) {
		return ""
	}
	return fmt.Sprintf("%.1f×", percentile(a, 50).Seconds()/percentile(b, 50).Seconds())
}

// times returns the known times in order.
func times(all []outcome, of func(outcome) time.Duration) (known []time.Duration) {
	for _, o := range all {
		if d := of(o); d > 0 {
			known = append(known, d)
		}
	}
	slices.Sort(known)
	return known
}

// percentile returns the least of the sorted times that p percent of them do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// spread returns the median with the minimum and the maximum.
func spread(sorted []time.Duration, digits int) string {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.*f", digits, d.Seconds()) }
	return fmt.Sprintf("%s s (%s–%s)", seconds(percentile(sorted, 50)), seconds(sorted[0]),
		seconds(sorted[len(sorted)-1]))
}

// distribution returns the percentiles of many measurements.
func distribution(what string, all []time.Duration) string {
	slices.Sort(all)
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d times:", what, len(all))
	for _, p := range []int{0, 25, 50, 75, 90, 99, 100} {
		fmt.Fprintf(&b, " p%d %.2f s", p, percentile(all, p).Seconds())
	}
	return b.String()
}
