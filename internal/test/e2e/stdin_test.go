package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

func TestStdinGoesToOneRankOrToAll(t *testing.T) {
	for choice, want := range map[string][]string{
		"2":    {"0 end", "1 end", "2 end", "2 in"},
		"all":  {"0 end", "0 in", "1 end", "1 in", "2 end", "2 in"},
		"none": {"0 end", "1 end", "2 end"},
	} {
		r := &run{}
		pipeIn(t, r, strings.NewReader("in\n"), "-np", "3", "--prefix", "%r ", "--stdin", choice, "sh", "-c", "cat; echo end")
		got := r.lines()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("--stdin %s: %q, want %q", choice, got, want)
		}
	}
	start(t, nil, "-np", "3", "--stdin", "3", "cat").want(2, "--stdin 3: there is no rank 3", "0 to 2")
	start(t, nil, "-np", "3", "--stdin", "some", "cat").want(2, `--stdin "some": expected a rank, all or none`)
	start(t, nil, "--dialect", "srun", "-n", "3", "-i", "0,2", "cat").want(2, "-i 0,2", "name one rank, or say -i all")
	start(t, nil, "--dialect", "srun", "-n", "3", "--input", "in.txt", "cat").want(2, "--input in.txt", "--input all <in.txt")
}

// Ranks on two hosts read at their own speed, stop early or do not read.
func TestStdinOfAllOverSSH(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	data := bytes.Repeat([]byte("0123456789abcdef\n"), 100_000)
	script := `case $RANK in 1) head -c 1000 >/dev/null;; 2) exec <&-; sleep .2;; *) sha256sum;; esac`
	argv := []string{binary("gorun"), "-F", c.ConfigFile, "-np", "4", "-H", "f1:2,f2:2", "--stdin", "all", "--prefix", "%r ", "sh", "-c", script}
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	cmd := c.Command(ctx, argv...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	sum := fmt.Sprintf("%x  -", sha256.Sum256(data))
	if want := []string{"0 " + sum, "3 " + sum}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A shell loop over its own input keeps it if the job does not read stdin.
func TestStdinOfAShellLoopIsNotEaten(t *testing.T) {
	cmd := exec.Command("sh", "-c", `while read -r line; do "$0" --stdin none --prefix none echo "$line"; done`, binary("gorun"))
	cmd.Stdin = strings.NewReader("one\ntwo\nthree\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "one\ntwo\nthree\n" {
		t.Errorf("%q, %v", out, err)
	}
}
