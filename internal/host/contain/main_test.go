package contain

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// treeWord makes this test binary the root of a process tree.
const treeWord = "__tree"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == treeWord {
		os.Exit(runTree(os.Args[2]))
	}
	os.Exit(m.Run())
}

// runTree is a subreaper that runs a shell script and lives as long as its stdin.
func runTree(script string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
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
	reap := func() {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				return
			}
		}
	}
	if left := (&Cage{rung: Tree}).Sweep(3*time.Second, reap); len(left) > 0 {
		fmt.Println(left, "are left")
		return 1
	}
	fmt.Println("swept")
	return 0
}
