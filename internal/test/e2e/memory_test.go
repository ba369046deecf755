package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// Ranks' use of time and memory is measured on their hosts, their children's included.
func TestPeakMemoryAndTimeAreTold(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	steps := filepath.Join(t.TempDir(), "steps")
	script := `[ $RANK = 0 ] || head -c 80000000 /dev/zero | tail -c 80000000 >/dev/null; :`
	r := start(t, c, "-np", "2", "-H", "f1,f2", "--summary", "--json-events", steps, "sh", "-c", script).want(0)
	for _, want := range []string{`rank +host +ended +time +cpu +peak memory\n`, `0 +f1 +code 0 +[\d.]+ s +[\d.]+ s +[\d.]+ MiB\n`, `1 +f2 +code 0 +[\d.]+ s +[\d.]+ s +([789]\d(\.\d)?|1\d\d) MiB\n`} {
		if !regexp.MustCompile(want).MatchString(r.err.String()) {
			t.Errorf("%q is not in:\n%s", want, &r.err)
		}
	}
	text, err := os.ReadFile(steps)
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]int64{}
	for line := range strings.Lines(string(text)) {
		var e step
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "exit" {
			used[*e.Rank] = e.MaxRSS
			if e.CPU <= 0 || e.CPU > 60 {
				t.Errorf("rank %d used %v s", *e.Rank, e.CPU)
			}
		}
	}
	if used[0] <= 0 || used[0] > 70e6 || used[1] < 75e6 || used[1] > 200e6 {
		t.Errorf("peaks %v", used)
	}
}
