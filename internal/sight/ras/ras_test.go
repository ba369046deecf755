package ras

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// serve answers as NCCL does: a line to each of three requests, then the status, and the end of the
// connection.
func serve(t *testing.T, format, status string) net.Conn {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() { _ = ours.Close(); <-done })
	go func() {
		defer close(done)
		defer theirs.Close()
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "CLIENT PROTOCOL "):
				fmt.Fprintln(theirs, "SERVER PROTOCOL 2")
			case strings.HasPrefix(line, "TIMEOUT "):
				fmt.Fprintln(theirs, "OK")
			case line == "SET FORMAT json":
				fmt.Fprintln(theirs, format)
			case line == "STATUS" && format == "OK", line == "VERBOSE STATUS" && format != "OK":
				fmt.Fprint(theirs, status)
				return
			default:
				fmt.Fprintln(theirs, "ERROR: Unknown command "+line)
			}
		}
	}()
	return ours
}

func TestAnswerInJSON(t *testing.T) {
	s,
		err := Ask(serve(t, "OK",
		`{"nccl_version": "2.30.7", "communicators": [{"hash": "0x1", "size": 2, "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": 7,
		"status": {"init_state": 0, "async_error": 6, "abort_flag": true}, "collective_counts": {"AllReduce": 3}}],
		"missing_ranks": [{"rank": 1, "pid": 8, "status": {"considered_dead": true}}]}], "ras": {"timeouts_count": 0}}`))
	must.OK(t, err)
	c := s.Comms[0]
	check.That(t, s.Version == "2.30.7" && c.Size == 2 && c.Ranks[0].PID == 7 &&
		c.Ranks[0].Counts["AllReduce"] == 3 && c.Ranks[0].Status.Abort && c.Missing[0].Status.Dead,
		"%+v", s)
}

func TestAnswerInText(t *testing.T) {
	s := must.Get(Ask(serve(t, "ERROR: Unknown command SET FORMAT json", "NCCL version 2.24.3 compiled with CUDA "+
		"12.8\nnoise\n\nErrors\n======\n\nDEAD\n  1 job process\n\nWarnings\n========\n\nW\n")))(t)
	check.Equal(t, fmt.Sprintf("%s %q", s.Version, s.Lines), `2.24.3 ["DEAD" "  1 job process" "W"]`)
}

// Ask bounds the texts of an answer, and refuses nonsense.
func TestAnswersAreBounded(t *testing.T) {
	huge := `{"rank": 0, "host": "` + strings.Repeat("h", 1000) + `"}` + strings.Repeat(`,{"rank": 0}`, maxRanks+10)
	s, err := Ask(serve(t, "OK", `{"communicators": [{"ranks": [`+huge+`]}]}`))
	check.That(t, err == nil && len(s.Comms[0].Ranks) <= maxRanks && len(s.Comms[0].Ranks[0].Host) <= maxText,
		"%v, %d ranks", err, len(s.Comms[0].Ranks))
	many := `{"communicators": [` + strings.Repeat("{},", maxValues) + "{}]}"
	for _, answer := range []string{"", "[]", `{"communicators": 3}`, "\x00", many} {
		s, err := Ask(serve(t, "OK", answer))
		check.That(t, err != nil, "%.100q: %+v", answer, s)
	}
	check.Error(Ask(serve(t, strings.Repeat("x", 1<<16), ""))).Any(t, "a line without end is accepted")
}
