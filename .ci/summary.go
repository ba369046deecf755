// Command summary reads the output of go test -json, prints what a person wants
// to see of it (a line per package, the output of what failed, the reason of
// what was skipped), then once more how the output of what failed begins, and
// ends with a line that counts the tests. It fails when a test did.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// beginning is how many bytes of a failed test's output stand at the end: what it found, not the
// logs that follow.
const beginning = 1500

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
	defer func() { fmt.Fprint(w, failures.String()) }()
	fail := func(key [2]string) {
		fmt.Fprint(w, output[key])
		begins := output[key][:min(len(output[key]), beginning)]
		fmt.Fprintf(&failures, "\nfailed: %s %s\n%s\n", key[0], key[1], begins)
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
