package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// The tests run programs of testdata as ranks of gorun. TestMain builds gorun and libring.so, and
// leads there by an environment variable.
const binEnv = "GORUN_TEST_BIN"

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("gcc"); err != nil {
		os.Exit(m.Run()) // all tests skip
	}
	os.Exit(lab.RunBuilt(m, func(dir string) error {
		return errors.Join(lab.BuildLibring("../..", dir), lab.BuildStatic("../..", dir, "./cmd/gorun"),
			os.Setenv(binEnv, dir))
	}))
}

// bin is the folder of gorun, libring.so and ring.h.
func bin() string { return os.Getenv(binEnv) }

// dialects are the languages that programs must compile in, without a word from the compiler.
func dialects() map[string][]string {
	return map[string][]string{"c": {"gcc", "-x", "c", "-std=c11"}, "c++": {"g++", "-x", "c++", "-std=c++17"}}
}

// compile builds a program of testdata, with more arguments for the compiler.
func compile(t testing.TB, language, source string, more ...string) (program string) {
	t.Helper()
	argv := dialects()[language]
	lab.Need(t, "gcc", argv[0])
	program = filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	argv = append(argv, "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_GNU_SOURCE", "-g", "-O1", "-I", bin(),
		filepath.Join("testdata", source), "-o", program)
	argv = append(argv, more...)
	argv = append(argv, "-L", bin(), "-Wl,--as-needed", "-lring", "-lpthread", "-ldl", "-Wl,-rpath,"+bin())
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	must.That(t, err == nil && len(out) == 0, "%s: %v\n%s", strings.Join(argv, " "), err, out)
	return program
}

// start runs a program with two minutes to end in, and returns what it printed.
func start(t testing.TB, env []string, argv ...string) (out string, state *os.ProcessState) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout = &text
	cmd.Stderr = &text
	err := cmd.Run()
	must.That(t, cmd.ProcessState != nil, "%v", err)
	return text.String(), cmd.ProcessState
}

// ranks runs a program as so many ranks of a job.
func ranks(t testing.TB, n int, env []string, program ...string) (out string, code int) {
	t.Helper()
	argv := append([]string{filepath.Join(bin(), "gorun"), "-np", fmt.Sprint(n), "--oversubscribe", "--prefix", "none"},
		program...)
	out, state := start(t, env, argv...)
	return out, state.ExitCode()
}

// allRight runs a program as ranks, each of which must print that all is right.
func allRight(t testing.TB, n int, env []string, program ...string) (out string) {
	t.Helper()
	out, code := ranks(t, n, env, program...)
	must.That(t, code == 0 && strings.Count(out, "all right") == n,
		"%d ranks of %s: exit code %d\n%s", n, strings.Join(program, " "), code, out)
	return out
}

// Every kind, type and operation, through every function, is right; as C and as C++.
func TestEvery(t *testing.T) {
	for language := range dialects() {
		program := compile(t, language, "every.c")
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(language, n), func(t *testing.T) { allRight(t, n, nil, program, fmt.Sprint(n)) })
		}
	}
}

// It is right over TCP, too.
func TestEveryOverTCP(t *testing.T) {
	allRight(t, 3, []string{"RING_TRANSPORT=tcp"}, compile(t, "c", "every.c"), "3")
}

// Every error has its number and text, and what is wrong leaves the rest as it was.
func TestErrors(t *testing.T) {
	for language := range dialects() {
		program := compile(t, language, "errors.c")
		t.Run(language, func(t *testing.T) {
			allRight(t, 1, nil, program)
			for _, n := range []int{2, 4} {
				out, _ := ranks(t, n, nil, program) // its last words break the job
				check.That(t, strings.Count(out, "all right") == n && !strings.Contains(out, "is not so") &&
					!strings.Contains(out, "want RING"), "%d ranks:\n%s", n, out)
			}
		})
	}
}

// header is the text of ring.h.
func header(t testing.TB) string {
	t.Helper()
	text := must.Get(os.ReadFile("ring.h"))(t)
	return string(text)
}
