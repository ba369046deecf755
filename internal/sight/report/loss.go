package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"

	"github.com/gorun/gorun/internal/sight/chart"
)

// LossPattern finds the step and the loss in a line of a trainer's output.
const LossPattern = `(?i)\bstep\W+(?P<step>\d+).*?\bloss\W+(?P<loss>-?\d[\d.e+-]*)`

// Value is a loss that a run has printed.
type Value struct{ Step, Loss float64 }

const (
	maxValues   = 1 << 20 // values of a run that are kept
	maxLossLine = 64 << 10
)

// LossExpression compiles a pattern that has the groups step and loss.
func LossExpression(pattern string) (*regexp.Regexp, error) {
	e, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if e.SubexpIndex("step") < 0 || e.SubexpIndex("loss") < 0 {
		return nil, errors.New("it needs the groups (?P<step>...) and (?P<loss>...)")
	}
	return e, nil
}

// Losses reads the losses that lines of output have. Where several ranks print one step, the first
// counts.
func Losses(output io.Reader, pattern *regexp.Regexp) (all []Value, err error) {
	step := pattern.SubexpIndex("step")
	loss := pattern.SubexpIndex("loss")
	seen := map[float64]bool{}
	lines := bufio.NewReaderSize(output, maxLossLine)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		if found := pattern.FindSubmatch(line); found != nil && !long {
			v := Value{parse(found[step]), parse(found[loss])}
			if !math.IsNaN(v.Step) && !seen[v.Step] && len(all) < maxValues {
				seen[v.Step] = true
				all = append(all, v)
			}
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && !long:
			return all, fmt.Errorf("read the output: %w", err)
		}
	}
}

func parse(text []byte) float64 {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// lossFigure draws the losses of runs that have printed some.
func lossFigure(runs []page) (chart.HTML, error) {
	var lines []chart.Series
	last := ""
	for _, r := range runs {
		if len(r.Loss) == 0 {
			continue
		}
		line := chart.Series{Name: "loss"}
		if len(runs) > 1 {
			line.Name = r.label()
		}
		every := (len(r.Loss) + maxColumns - 1) / maxColumns
		for i := 0; i < len(r.Loss); i += every {
			part := r.Loss[i:min(i+every, len(r.Loss))]
			sum := 0.0
			for _, v := range part {
				sum += v.Loss
			}
			line.Points = append(line.Points, chart.Point{X: part[len(part)-1].Step, Y: sum / float64(len(part))})
		}
		end := r.Loss[len(r.Loss)-1]
		last = fmt.Sprintf("%.4g at step %.0f", end.Loss, end.Step)
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "", nil
	}
	if len(runs) > 1 {
		last = ""
	}
	drawn, err := chart.Plot{
		Title:  "Loss by step",
		Note:   last,
		Text:   "Loss by step: " + last,
		X:      chart.Axis{Name: "step", Unit: chart.In("")},
		Y:      chart.Axis{Unit: chart.In("")},
		Series: lines,
	}.Figure()
	return chart.Section("Loss", "", `<div class="charts wide">`, drawn, "</div>"), err
}
