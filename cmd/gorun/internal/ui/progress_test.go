package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestProgressFitsTheTerminal(t *testing.T) {
	began := time.Now()
	p := &amount{began: began}
	check.Equal(t, p.text("copying", began, 80), "copying")
	p.Expect(4_500_000_000)
	p.Expect(-500_000_000)
	check.Equal(t, p.text("copying", began, 80), "copying: 0 bytes of 4.0 GB, 0 %")
	p.Add(1_000_000_000)
	now := began.Add(10 * time.Second)
	for width, want := range map[int]string{
		292: "copying: 1.0 GB of 4.0 GB, 25 %, 100.0 MB/s, 30s left",
		53:  "copying: 1.0 GB of 4.0 GB, 25 %, 100.0 MB/s, 30s left",
		52:  "copying: 1.0 GB of 4.0 GB, 25 %, 100.0 MB/s",
		33:  "copying: 1.0 GB of 4.0 GB, 25 %",
		10:  "copying: 1.0 GB of 4.0 GB",
	} {
		check.Equal(t, p.text("copying", now, width), want, width)
	}
}

// On a terminal the last line changes, makes room for messages and is erased at the end.
func TestProgressOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer master.Close()
	number := must.Get(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	must.OK(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave := must.Get(os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	must.OK(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 40}))
	console := &UI{W: &DeadlineWriter{W: slave}}
	p := NewProgress(console, "copying")
	check.Equal(t, p.columns, 40)
	p.Expect(1000)
	p.Add(100)
	var said strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(said.String(), "copying: 100 bytes of 1.0 kB") {
		n := must.Get(master.Read(buffer))(t)
		said.Write(buffer[:n])
	}
	console.Warningf("f1 is slow")
	p.Close()
	slave.Close()
	rest, _ := io.ReadAll(master) // it ends with an error when the last slave is closed
	said.Write(rest)
	text := said.String()
	check.That(t, strings.Contains(text, "\r\x1b[Kgorun: warning: f1 is slow\r\n"), "%q", text)
	check.That(t, strings.HasSuffix(text, "\r\x1b[K"), "%q", text)
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n", "\r\x1b[K"), "\r\x1b[K") {
		check.That(t, len(line) < 40, "a line of %d columns: %q", len(line), line)
	}
}

// Elsewhere nothing is shown, or a line each 10 s with --verbose.
func TestProgressElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for verbose, want := range []string{"", "gorun: copying: 10 bytes of 1.0 kB, 1 %, 1 bytes/s, 16m30s left\n"} {
			var out screen
			p := NewProgress(&UI{W: &out, Verbose: verbose}, "copying")
			p.Expect(1000)
			p.Add(10)
			time.Sleep(verboseTick + time.Second)
			p.Close()
			check.Equal(t, out.String(), want)
		}
	})
}
