// Command summary reads the output of go test -json. It prints a line for each
// package, the output of failed tests, the reasons of skipped ones, the slowest
// tests, and once more the beginning and the end of what each failed test
// printed. The last line counts the tests. It fails when a test did.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// excerpt is how many bytes of a failed test's output stand at the end, half of them from where it
// begins: a test says first what it found, with logs after it, and a script last.
const excerpt = 3000

// slowest is how many of the tests that took longest are named.
const slowest = 25

func main() {
	passed, failed, skipped, err := summarise(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Println("reading the output of go test:", err)
		failed++
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		os.Exit(1)
	}
}

func summarise(r io.Reader, w io.Writer) (passed, failed, skipped int, err error) {
	output := map[[2]string]string{} // by package and test, until the test's end
	inside := map[string]int{}       // failed tests by package
	var failures strings.Builder
	var ended []event // whole tests
	defer func() {
		slices.SortStableFunc(ended, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
		for _, e := range ended[:min(len(ended), slowest)] {
			fmt.Fprintf(w, "%6.1f s %s %s\n", e.Elapsed, e.Package, e.Test)
		}
		fmt.Fprint(w, failures.String())
	}()
	fail := func(key [2]string) {
		fmt.Fprint(w, output[key])
		fmt.Fprintf(&failures, "\nfailed: %s %s\n%s\n", key[0], key[1], shortened(output[key]))
		delete(output, key)
	}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return passed, failed, skipped, nil
		}
		if err != nil {
			return passed, failed, skipped, err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(w, line) // go test's own words, such as a bad flag
			continue
		}
		key := [2]string{e.Package, e.Test}
		if e.Test != "" && e.Elapsed > 0 && !strings.Contains(e.Test, "/") {
			ended = append(ended, e)
		}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(w, e.Output)
		case e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" && e.Output != "FAIL\n" && !strings.HasPrefix(e.Output, "?") {
				fmt.Fprint(w, e.Output)
			}
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				output[key] += e.Output
			}
		case e.Test == "" && e.Action == "fail" && inside[e.Package] == 0:
			failed++ // it did not build, or ended in the middle of its tests
			for key, text := range output {
				if key[0] == e.Package && strings.Contains(text, "\ngoroutine ") {
					fail(key)
				}
			}
		case e.Test == "":
		case e.Action == "pass":
			passed++
			delete(output, key)
		case e.Action == "skip":
			skipped++
			fmt.Fprint(w, output[key])
			delete(output, key)
		case e.Action == "fail":
			failed++
			inside[e.Package]++
			fail(key)
		}
	}
}

// shortened leaves out the middle of a long text.
func shortened(text string) string {
	if len(text) <= excerpt {
		return text
	}
	return text[:excerpt/2] + "\n[...]\n" + text[len(text)-excerpt/2:]
}
