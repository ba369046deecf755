package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/bench"
)

// compareRails prints the speed of ring over each veth pair and over all of them. They take turns.
func compareRails(ctx context.Context, w io.Writer, s settings, g *ground, about string) error {
	rates := strings.Split(s.rails, ",")
	var uses []string
	for i := range rates {
		uses = append(uses, fmt.Sprintf("eth%d", i))
	}
	uses = append(uses, strings.Join(uses, ","))
	text := fmt.Sprintf("%s; allreduce of 2 ranks, MB/s; rails of %s\n\n| bytes | %s | all | all / first | all / sum "+
		"|\n|%s\n",
		about, s.rails, strings.Join(rates, " | "), strings.Repeat("---|", len(rates)+4))
	for _, bytes := range s.sizes() {
		times := make([][]float64, len(uses))
		for range s.runs {
			for i, use := range uses {
				g.network.use = use
				us, err := timeRing(ctx, s, g, bytes, time.Minute)
				if err != nil {
					return fmt.Errorf("%s, %d bytes: %w", use, bytes, err)
				}
				times[i] = append(times[i], us)
			}
		}
		text += railsRow(bytes, times)
	}
	_, err := io.WriteString(w, text)
	return err
}

// timeRing returns the median time of one allreduce in µs.
func timeRing(ctx context.Context, s settings, g *ground, bytes int, limit time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := bench.Options{
		Collective: s.collective,
		Min:        bytes,
		Max:        bytes,
		Budget:     10 * budget,
	}
	rows, err := runRing(g.command(ctx, ringArgs(s, g, opts)))
	if err != nil {
		return 0, err
	}
	return rows[0].Median, nil
}

// railsRow returns a line of the table. The last times are of all rails.
func railsRow(bytes int, times [][]float64) string {
	text := fmt.Sprintf("| %d |", bytes)
	var speeds []float64
	sum := 0.0
	for i, t := range times {
		speed := float64(bytes) / median(t) // bytes in a µs are MB/s
		speeds = append(speeds, speed)
		if i < len(times)-1 {
			sum += speed
		}
		text += fmt.Sprintf(" %.1f |", speed)
	}
	all := speeds[len(speeds)-1]
	return text + fmt.Sprintf(" %.2f | %.2f |\n", all/speeds[0], all/sum)
}
