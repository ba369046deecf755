package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
)

// testBuild stands for the content of the executable.
const testBuild = "test-build"

// Words that make this test binary a guard, an agent, a rank that asks the
// rank server, or a process that reaps.
const (
	guardWord = "__guard"
	serveWord = "__serve"
	askWord   = "__ask"
	reapWord  = "__reap"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case guardWord, serveWord:
			os.Exit(runAgent(os.Args[1], os.Args[2:]))
		case askWord:
			os.Exit(ask(os.Args[2:]))
		case reapWord:
			os.Exit(runBesideReaper(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// runAgent is what cmd/gorun does on a host.
func runAgent(word string, args []string) int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if os.Getenv("AGENT_TEST_DEAF") != "" {
		go func() {
			for ; ; time.Sleep(time.Millisecond) {
				signal.Reset(syscall.SIGCHLD)
			}
		}()
	}
	var code int
	var err error
	if group := os.Getenv("AGENT_TEST_GROUP"); group != "" && word == guardWord {
		if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if word == guardWord {
		rung, _ := strconv.Atoi(os.Getenv("AGENT_TEST_RUNG"))
		code, err = Guard(ctx, GuardOptions{Argv: []string{cmp.Or(os.Getenv("AGENT_TEST_PROGRAM"), "/proc/self/exe"),
			serveWord, args[0]}, rung: contain.Rung(rung)})
	} else {
		tasks, _ := strconv.Atoi(os.Getenv("AGENT_TEST_TASKS"))
		opts := Options{
			Nonce: args[0],
			Build: testBuild,
			Guard: args[1],
			tasks: tasks,
		}
		if root := os.Getenv("AGENT_TEST_ROOT"); root != "" {
			opts.root = os.DirFS(root)
		}
		err = Serve(ctx, os.Stdin, os.Stdout, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, word, err)
		code = cmp.Or(code, 1)
	}
	return code
}

// ask is a rank: it sends "METHOD path body" requests to the rank server, one after the
// other, and prints the answers.
func ask(requests []string) int {
	for _, r := range requests {
		method, rest, _ := strings.Cut(r, " ")
		path, body, _ := strings.Cut(rest, " ")
		body = strings.ReplaceAll(body, "RANK", os.Getenv("GORUN_RANK"))
		at := os.Getenv("GORUN_AGENT")
		if gloo, is := strings.CutPrefix(method, "GLOO-"); is {
			method = gloo
			at = os.Getenv("HOROVOD_GLOO_RENDEZVOUS_ADDR") + ":" + os.Getenv("HOROVOD_GLOO_RENDEZVOUS_PORT")
			path = strings.ReplaceAll(path, "LOCAL", os.Getenv("HOROVOD_LOCAL_RANK"))
		}
		req, err := http.NewRequest(method, "http://"+at+path, strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		req.Header.Set("Authorization", "Bearer "+os.Getenv("GORUN_TOKEN"))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(bytes.TrimSpace(text)))
	}
	return 0
}
