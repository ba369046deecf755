package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
)

// A job that a test starts by mistake starts agents of this program. They must not run the tests
// again: those would start jobs, too, and so on without end.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__") {
		fmt.Fprintf(os.Stderr, "a test has started a job: %q\n", os.Args[1:])
		os.Exit(exitcode.Launch)
	}
	os.Exit(m.Run())
}
