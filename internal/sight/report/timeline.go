package report

import (
	"fmt"

	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/sight/watch/record"
)

// timeline shows the events of the run above the CPU of all ranks.
func (p page) timeline() (chart.HTML, error) {
	d := p.data
	t := chart.Timeline{End: d.end, Lanes: p.lanes()}
	text := "Marks are events; point at one to read it."
	if d.rank.cpu != nil {
		most := highest(d.rank.cpu)
		t.Raster = &chart.Raster{
			Text: fmt.Sprintf("CPU of %d ranks over time. The tables below have the numbers.", d.size),
			Heat: heat(d, d.rank.cpu, most),
			Rows: d.size,
			End:  d.end,
			Most: most,
			Unit: chart.In("cores"),
		}
		text += " Below is the CPU of each rank, 0 on top. Nothing is drawn before a rank starts or after it ends."
		if d.size > maxRows {
			text += " Of ranks that share a row, it has the one that differs most from the median."
		}
	}
	if t.Raster == nil && len(t.Lanes) == 0 {
		return "", nil
	}
	drawn, err := t.HTML()
	return chart.Section("Ranks over time", text, drawn), err
}

func (p page) lanes() (lanes []chart.Lane) {
	for _, kind := range []struct {
		name, class string
		is          func(record.Event) bool
	}{
		{"starts", "", func(e record.Event) bool { return e.What == "started" }},
		{"resets", "", func(e record.Event) bool { return e.What == "membership" }},
		{"stalls", "warning", func(e record.Event) bool { return e.What == "stacks" || e.What == "straggler" }},
		{"failures", "bad", func(e record.Event) bool { return e.What == "exited" && e.Failed && !e.Stopped }},
		{"hosts lost", "bad", func(e record.Event) bool { return e.What == "lost" }},
		{"kills", "warning", func(e record.Event) bool { return e.What == "exited" && e.Stopped }},
		{"ends", "", func(e record.Event) bool { return e.What == "exited" && !e.Failed && !e.Stopped }},
	} {
		lane := chart.Lane{Name: kind.name, Class: kind.class}
		for _, g := range p.groups() {
			if kind.is(g.Event) {
				lane.Marks = append(lane.Marks, chart.Mark{At: p.seconds(g.Event), Text: g.text()})
			}
		}
		if len(lane.Marks) > 0 {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}
