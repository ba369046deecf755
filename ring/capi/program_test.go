package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Threads submit, wait, free and close concurrently.
func TestThreads(t *testing.T) {
	program := compile(t, "c", "threads.c")
	for _, n := range []int{1, 2} {
		allRight(t, n, nil, program)
	}
}

// A rank that is killed is named by the errors of the others.
func TestKilledRank(t *testing.T) {
	must.HaveTime(t)
	out, code := ranks(t, 3, nil, compile(t, "c", "peer.c"))
	check.That(t, code != 0 && strings.Count(out, "all right") == 2, "exit code %d\n%s", code, out)
}

// Calls leave nothing behind, and take no memory that is to be collected: of 32 bytes a call there
// would be 30 MiB, or with a collection at each tenth 6 MiB.
func TestCallsLeaveNothing(t *testing.T) {
	out, state := start(t, []string{"GOGC=10"}, compile(t, "c", "calls.c"), "1000000")
	must.That(t, state.ExitCode() == 0 && strings.Contains(out, "all right"), "%v\n%s", state, out)
}

// Memory errors of programs, of ring.c and of the library's other C, under the address sanitizer
// and UBSan.
func TestAddresses(t *testing.T) {
	lab.Need(t, "gcc")
	const sanitized = "-fsanitize=address,undefined"
	const strict = "-fno-sanitize-recover=all"
	dir := t.TempDir()
	gorun := filepath.Join(bin(), "gorun")
	t.Setenv("CGO_CFLAGS", os.Getenv("CGO_CFLAGS")+" "+sanitized+" "+strict)
	t.Setenv("CGO_LDFLAGS", os.Getenv("CGO_LDFLAGS")+" "+sanitized)
	t.Setenv("ASAN_OPTIONS", "detect_leaks=1")
	must.OK(t, errors.Join(lab.BuildLibring("../..", dir), os.Symlink(gorun, filepath.Join(dir, "gorun"))))
	t.Setenv(binEnv, dir) // what compile and ranks look for
	for _, source := range []string{"every.c", "errors.c"} {
		program := compile(t, "c", source, sanitized, strict)
		out, state := start(t, nil, program, "1")
		check.That(t, state.ExitCode() == 0 && strings.Contains(out, "all right"), "%s: %v\n%s", source, state, out)
	}
	allRight(t, 2, []string{"RING_TRANSPORT=tcp"}, compile(t, "c", "every.c", sanitized, strict), "2")
	allRight(t, 2, nil, compile(t, "c", "threads.c", sanitized, strict))
	out, err := exec.Command("nm", filepath.Join(dir, "libring.so")).Output()
	check.That(t, err == nil && strings.Contains(string(out), "__asan_report_load") &&
		strings.Contains(string(out), "__ubsan_handle_"), "the library is not sanitized: %v", err)
}

// A program that loads the library late keeps its signals.
func TestSignals(t *testing.T) {
	program := compile(t, "c", "signals.c")
	library := filepath.Join(bin(), "libring.so")
	for mode, killed := range map[string]syscall.Signal{
		"none": 0, "segv before": 0, "segv after": 0, "int handler": 0,
		"int": syscall.SIGINT, "term": syscall.SIGTERM, "segv": syscall.SIGSEGV, "pipe": syscall.SIGPIPE,
		"abort": syscall.SIGABRT,
	} {
		t.Run(mode, func(t *testing.T) {
			out, state := start(t, nil, program, library, mode)
			status := state.Sys().(syscall.WaitStatus)
			switch {
			case killed == 0 && (state.ExitCode() != 0 || !strings.Contains(out, "all right")):
				t.Errorf("%v\n%s", state, out)
			case killed != 0 && (!status.Signaled() || status.Signal() != killed):
				t.Errorf("%v, want %v\n%s", state, killed, out)
			}
		})
	}
}

// Python's faulthandler prints its trace, enabled before the library is loaded or after.
func TestFaulthandler(t *testing.T) {
	lab.Need(t, "gcc", "/usr/bin/python3")
	for _, when := range []string{"before", "after"} {
		out, state := start(t, nil, "/usr/bin/python3", "../python/tests/crash.py", filepath.Join(bin(), "libring.so"),
			when)
		status := state.Sys().(syscall.WaitStatus)
		check.That(t, status.Signaled() && status.Signal() == syscall.SIGSEGV &&
			strings.Contains(out, "Segmentation fault") && strings.Contains(out, "in crash"),
			"%s: %v\n%s", when, state, out)
	}
}

// The library gives out the functions of ring.h, and no other symbol.
func TestSymbols(t *testing.T) {
	lab.Need(t, "gcc", "nm")
	out := must.Get(exec.Command("nm", "-D", "--defined-only", "--without-symbol-versions",
		filepath.Join(bin(), "libring.so")).Output())(t)
	var got []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && words[1] != "A" { // the version's own name
			got = append(got, words[2])
		}
	}
	var want []string
	for _, f := range regexp.MustCompile(`(?m)^\w[\w ]*[ *](ring_\w+)\(`).FindAllStringSubmatch(header(t), -1) {
		want = append(want, f[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	check.That(t, len(want) >= 30 && slices.Equal(got, want), "the library has\n%s\nring.h has\n%s", got, want)
}

// The header needs no other one before it, in either language.
func TestHeaderAlone(t *testing.T) {
	for language, argv := range dialects() {
		lab.Need(t, "gcc", argv[0])
		cmd := exec.Command(argv[0], append(argv[1:], "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
			filepath.Join(bin(), "ring.h"))...)
		out, err := cmd.CombinedOutput()
		check.That(t, err == nil, "%s: %v\n%s", language, err, out)
	}
}
