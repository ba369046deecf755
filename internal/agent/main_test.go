package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// testBuild stands for the content of the executable.
const testBuild = "test-build"

// Words that make this test binary a guard, an agent, a rank that asks at the
// door, or the root of a process tree.
const (
	guardWord = "__guard"
	serveWord = "__serve"
	askWord   = "__ask"
	treeWord  = "__tree"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case guardWord, serveWord:
			os.Exit(runAgent(os.Args[1], os.Args[2]))
		case askWord:
			os.Exit(ask(os.Args[2:]))
		case treeWord:
			os.Exit(runTree(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// runAgent is what cmd/gorun does on a host.
func runAgent(word, nonce string) int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	var code int
	var err error
	if word == guardWord {
		code, err = Guard(ctx, []string{cmp.Or(os.Getenv("AGENT_TEST_PROGRAM"), "/proc/self/exe"), serveWord, nonce})
	} else {
		err = Serve(ctx, os.Stdin, os.Stdout, Options{Nonce: nonce, Build: testBuild})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, word, err)
		code = cmp.Or(code, 1)
	}
	return code
}

// ask is a rank: it sends "METHOD path body" requests to its door, one after the
// other, and prints the answers.
func ask(requests []string) int {
	for _, r := range requests {
		method, rest, _ := strings.Cut(r, " ")
		path, body, _ := strings.Cut(rest, " ")
		body = strings.ReplaceAll(body, "RANK", os.Getenv("GORUN_RANK"))
		req, err := http.NewRequest(method, "http://"+os.Getenv("GORUN_AGENT")+path, strings.NewReader(body))
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

// runTree is a subreaper that runs a shell script and lives as long as its stdin.
func runTree(script string) int {
	if err := becomeSubreaper(); err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if left := sweep(sweepTime, func() { reapUntil(0) }); left > 0 {
		fmt.Println(left, "processes are left")
		return 1
	}
	fmt.Println("swept")
	return 0
}
