package hostfile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
)

// parse is [Parse] of a hostfile that stands alone.
func parse(text string) ([]Host, error) {
	list, err := Parse("hosts.txt", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return list.Hosts()
}

// parseList is [ParseList] of a list that stands alone.
func parseList(text string) ([]Host, error) {
	list, err := ParseList(text)
	if err != nil {
		return nil, err
	}
	return list.Hosts()
}

// parsed answers a case: the hosts, or a *ParseError.
func parsed(t *testing.T, parse func(text string) ([]Host, error)) func(text string) (string, error) {
	return func(text string) (string, error) {
		hosts, err := parse(text)
		var fault *ParseError
		check.That(t, err == nil || errors.As(err, &fault) && hosts == nil, "%.60q: %v, %v", text, hosts, err)
		return strings.ReplaceAll(strings.TrimSpace(Format(hosts)), "\n", "; "), err
	}
}

func TestParse(t *testing.T) {
	golden.Cases(t, "testdata/parse.txt", parsed(t, parse))
	for text, want := range map[string]string{
		strings.Repeat("x.", 130) + "x\n": `at most 253 characters`,
		strings.Repeat("\n", MaxBytes+1):  `hosts.txt: longer than 4 MiB`,
	} {
		var fault *ParseError
		if hosts, err := parse(text); !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || hosts != nil {
			t.Errorf("%.60q is %v, %v\nwant an error with %s", text, hosts, err, want)
		}
	}
}

func TestParseTooManyHosts(t *testing.T) {
	var b strings.Builder
	for i := range MaxHosts + 1 {
		fmt.Fprintf(&b, "h%x\n", i)
	}
	_, err := parse(b.String())
	check.That(t, err != nil && strings.Contains(err.Error(), ":100001:1:") &&
		strings.Contains(err.Error(), "more than 100000 hosts"),
		"err = %v", err)
}

func TestParseReportsReadErrors(t *testing.T) {
	_, err := Parse("hosts.txt", iotest.ErrReader(io.ErrUnexpectedEOF))
	check.That(t, errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(err.Error(), "read hosts.txt: "),
		"err = %v", err)
}

func TestParseList(t *testing.T) {
	golden.Cases(t, "testdata/lists.txt", parsed(t, parseList))
	long := strings.Repeat("a,", MaxBytes)
	hosts, err := parseList(long)
	check.That(t, err != nil && strings.Contains(err.Error(), "-H: longer than 4 MiB") && hosts == nil,
		"a long list: %v, %v", hosts, err)
}

func ExampleParse() {
	list, err := Parse("hosts.txt", strings.NewReader(`
		node1 slots=4            # two words
		ada@node2:2              // or one
		[fd00::7]:2 port=2222
		gpu[08-10] gpus=2
		^gpu09
	`))
	if err != nil {
		fmt.Println(err)
	}
	hosts, err := list.Hosts()
	fmt.Print(Format(hosts), err, "\n")

	_, err = Parse("f", strings.NewReader("node1 slots=two"))
	fmt.Println(err)
	// Output:
	// node1 slots=4
	// ada@node2 slots=2
	// [fd00::7] slots=2 port=2222
	// gpu08 slots=2 gpus=2
	// gpu10 slots=2 gpus=2
	// <nil>
	// f:1:7: "slots=two": slots must be a whole number from 1 to 65535, or auto for one per core
}
