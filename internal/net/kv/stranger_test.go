package kv

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
)

// other is this test binary, run by another user.
type other struct {
	stdin io.Closer
	out   *bytes.Buffer
	cmd   *exec.Cmd
}

func helper(t *testing.T, uid int, role, addr string) *other {
	t.Helper()
	o := &other{out: &bytes.Buffer{}, cmd: exec.Command("/proc/self/exe", "-test.run=^TestUnauthenticated$")}
	o.cmd.Env = append(os.Environ(), "KV_ROLE="+role, "KV_SERVER="+addr)
	o.cmd.Stdout = o.out
	if uid != os.Getuid() {
		o.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	o.stdin = must.Get(o.cmd.StdinPipe())(t)
	must.OK(t, o.cmd.Start())
	t.Cleanup(func() { o.stop() })
	return o
}

// stop ends it and returns the first line that it printed.
func (o *other) stop() string {
	o.stdin.Close()
	if o.cmd.ProcessState == nil {
		_ = o.cmd.Wait()
	}
	line, _, _ := strings.Cut(o.out.String(), "\n")
	return line
}

// TestUnauthenticated is what helper runs: no test of its own.
func TestUnauthenticated(t *testing.T) {
	addr := os.Getenv("KV_SERVER")
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch os.Getenv("KV_ROLE") {
	case "flood":
		var mu sync.Mutex
		n := 0
		for worker := range 8 {
			wg.Go(func() {
				var open []net.Conn
				for ctx.Err() == nil {
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						time.Sleep(time.Millisecond)
						continue
					}
					if worker%2 == 0 {
						_, _ = conn.Write(bytes.Repeat([]byte{byte(worker), 'x', '\r'}, 4096))
					} else {
						_, _ = io.WriteString(conn, "GET /v1/job HT") // and never more
					}
					if open = append(open, conn); len(open) > 100 {
						open[0].Close()
						open = open[1:]
					}
					mu.Lock()
					n++
					mu.Unlock()
				}
				for _, conn := range open {
					conn.Close()
				}
			})
		}
		defer func() { fmt.Println(n) }()
	default:
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
}
