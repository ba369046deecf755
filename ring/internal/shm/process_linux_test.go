package shm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// childEnv makes the test binary act as a rank of its own: "RANK SIZE WILLING
// PROGRAM". It exchanges over stdin and stdout, a line of JSON each.
const childEnv = "SHM_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// said is one line from a child.
type said struct {
	Name    string // of an exchange; "" is a result
	Value   []byte
	Domains [][]int
	Result  string
}

// rankProcess is the state of a child.
type rankProcess struct {
	rank, size int
	domains    [][]int
	g          *Group
	broken     atomic.Bool
	in         *bufio.Scanner
	out        *json.Encoder
}

func (c *rankProcess) exchange(name string, value []byte) ([][]byte, error) {
	if err := c.out.Encode(said{Name: name, Value: value}); err != nil {
		return nil, err
	}
	if !c.in.Scan() {
		return nil, errors.Join(errors.New("the test is over"), c.in.Err())
	}
	var values [][]byte
	return values, json.Unmarshal(c.in.Bytes(), &values)
}

func (c *rankProcess) tell(result string) { _ = c.out.Encode(said{Result: result, Domains: c.domains}) }

// child joins, runs its program, and sends the program's result.
func child(text string) error {
	fields := strings.Fields(text)
	c := &rankProcess{in: bufio.NewScanner(os.Stdin), out: json.NewEncoder(os.Stdout)}
	c.in.Buffer(nil, 1<<20)
	c.rank, _ = strconv.Atoi(fields[0])
	c.size, _ = strconv.Atoi(fields[1])
	kernels, err := kernel.Detect("")
	if err != nil {
		return err
	}
	c.g, c.domains, err = Join(c.rank, c.size, fields[2] == "true", c.exchange, kernels, &c.broken)
	if err != nil {
		return err
	}
	run, ok := programs()[fields[3]]
	if !ok {
		return fmt.Errorf("no program %q", fields[3])
	}
	c.tell(run(c, fields[4:]))
	_, _ = c.exchange("end", nil) // so that no rank leaves during another's checks
	if c.g == nil {
		return nil
	}
	return c.g.Close()
}

// programs are the programs of children by name. Each returns its result.
func programs() map[string]func(c *rankProcess, args []string) string {
	return map[string]func(c *rankProcess, args []string) string{
		"join":    (*rankProcess).sum,
		"repeat":  (*rankProcess).repeat,
		"halfway": (*rankProcess).halfway,
	}
}

// family is a set of children. It carries out their exchanges.
type family struct {
	t        testing.TB
	ranks    []*lab.Program
	willing  []bool
	wrappers [][]string // by rank: a command that starts the child, such as unshare
}

// start starts the children with their program.
func (f *family) start(size int, program string) {
	f.t.Helper()
	for rank := range size {
		willing := f.willing == nil || f.willing[rank]
		args := []string{os.Args[0]}
		if f.wrappers != nil {
			args = append(f.wrappers[rank : rank+1 : rank+1][0], args...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), lab.QuickExit,
			fmt.Sprintf("%s=%d %d %v %s", childEnv, rank, size, willing, program))
		f.ranks = append(f.ranks, lab.Start(f.t, cmd))
	}
}

// hear returns a child's next line.
func (f *family) hear(rank int) said {
	f.t.Helper()
	var s said
	line, err := f.ranks[rank].Line()
	if err = errors.Join(err, json.Unmarshal([]byte(line), &s)); err != nil {
		f.t.Fatalf("rank %d: %v in %q", rank, err, line)
	}
	return s
}

// results carries out exchanges until every child has sent a result.
func (f *family) results() []said {
	f.t.Helper()
	results := make([]said, len(f.ranks))
	for {
		values := make([][]byte, len(f.ranks))
		told := 0
		for rank := range f.ranks {
			s := f.hear(rank)
			if s.Name == "" {
				results[rank] = s
				told++
			}
			values[rank] = s.Value
		}
		if told == len(f.ranks) {
			return results
		}
		f.spread(values)
	}
}

func (f *family) spread(values [][]byte) {
	f.t.Helper()
	text := must.Get(json.Marshal(values))(f.t)
	for _, p := range f.ranks {
		must.Get(p.In.Write(append(text, '\n')))(f.t)
	}
}

// finish lets the children leave, and fails if one exits with an error.
func (f *family) finish() {
	f.t.Helper()
	for rank := range f.ranks {
		f.hear(rank)
	}
	f.spread(make([][]byte, len(f.ranks)))
	for rank, cmd := range f.ranks {
		check.OK(f.t, cmd.Wait(), "rank", rank)
	}
}
