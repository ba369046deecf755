package doctor

// Total sums up the links of one host. Zero is unknown.
type Total struct {
	RTT     float64 // round-trip time to most hosts in seconds
	Out, In float64 // bytes per second
	Loss    float64 // share of retransmitted segments
	Clock   float64 // seconds ahead of the others' clocks
}

// Totals sums up the links of each host, in the order of names.
func Totals(m Measured) []Total {
	totals := make([]Total, len(m.Names))
	for i, v := range (&judge{Measured: m}).views() {
		totals[i] = Total{
			RTT:   median(v.rtt),
			Out:   middle(v.out, true),
			In:    middle(v.in, true),
			Loss:  max(median(v.lossOut), median(v.lossIn)),
			Clock: median(v.offset),
		}
	}
	return totals
}
