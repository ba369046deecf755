package shm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/ring/internal/kernel"
)

func TestMain(m *testing.M) {
	lab.Play(map[string]func(string) error{"rank": playRank})
	os.Exit(m.Run())
}

// playRank is the role of a rank: "URL RANK SIZE PROGRAM …". It joins by exchanges at URL, and
// prints what its program returns.
func playRank(told string) error {
	fields := strings.Fields(told)
	rank, _ := strconv.Atoi(fields[1])
	size, _ := strconv.Atoi(fields[2])
	exchange := func(name string, value []byte) (values [][]byte, err error) {
		answer, err := http.Post(fields[0]+"/"+fields[1]+"/"+name, "", bytes.NewReader(value))
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		return values, json.NewDecoder(answer.Body).Decode(&values)
	}
	kernels, err := kernel.Detect("")
	if err != nil {
		return err
	}
	var broken atomic.Bool
	g, domains, err := Join(rank, size, true, exchange, kernels, &broken)
	if err != nil {
		return err
	}
	switch fields[3] {
	case "join":
		fmt.Println(domains, sum(g, rank))
	case "halfway":
		fmt.Println(halfway(g, fields[4:]))
	}
	_, _ = exchange("end", nil) // so that no rank leaves during another's checks
	if g == nil {
		return nil
	}
	return g.Close()
}

// startRanks starts ranks that are processes, with their program. Wrappers, by rank, are commands
// that start them.
func startRanks(t testing.TB, size int, program string, wrappers ...[]string) (ranks []*lab.Program) {
	t.Helper()
	m := newMeeting(size)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Cleanup(m.end)
	for rank := range size {
		args := []string{os.Args[0]}
		if wrappers != nil {
			args = append(slices.Clone(wrappers[rank]), args...)
		}
		ranks = append(ranks, lab.StartRole(t, exec.Command(args[0], args[1:]...),
			fmt.Sprintf("rank %s %d %d %s", server.URL, rank, size, program)))
	}
	return ranks
}
