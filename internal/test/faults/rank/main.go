// Command rank is the program of ranks that faults hit. It prints numbered lines with checksums, so
// that lost, doubled and torn output shows in the output alone; with -reduce it prints one for each
// correct collective.
//
// SIGUSR1 ends it with code 0, SIGUSR2 with code 3. A wrong result ends it with code 9 and the word
// WRONG.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/ring"
)

const (
	codeAsked = 3
	codeWrong = 9
	daemonArg = "daemon"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], daemonArg) {
		daemon(os.Args[1:])
		return
	}
	ignore := flag.Bool("ignore-term", false, "ignore SIGTERM")
	child := flag.Bool("daemon", false, "leave a child that has shed all that ties it to this process")
	reduce := flag.Bool("reduce", false, "add numbers up with the other ranks, and look at the sums")
	every := flag.Duration("every", 20*time.Millisecond, "time between lines")
	flag.Parse()
	if *ignore {
		signal.Ignore(syscall.SIGTERM)
	}
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGUSR1, syscall.SIGUSR2)
	if *child {
		if err := startDaemon(daemonArg, os.Getenv("FAULT_MARK")); err != nil {
			log.Fatal("start a daemon: ", err)
		}
	}
	lines := newLines(os.Stdout)
	if *reduce {
		lines.reduce(end, *every)
		return
	}
	for tick := time.NewTicker(*every); ; {
		lines.print("line")
		select {
		case s := <-end:
			lines.finish(s == syscall.SIGUSR2)
		case <-tick.C:
		}
	}
}

// lines prints the lines of one rank: rank, number, text, checksum of the three.
type lines struct {
	w    io.Writer
	rank string
	next int
}

func newLines(w io.Writer) *lines { return &lines{w: w, rank: os.Getenv("GORUN_RANK")} }

func (l *lines) print(text string) {
	line := fmt.Sprintf("%s %d %s", l.rank, l.next, text)
	fmt.Fprintf(l.w, "%s %08x\n", line, crc32.ChecksumIEEE([]byte(line)))
	l.next++
}

func (l *lines) finish(fail bool) {
	l.print("end")
	if fail {
		os.Exit(codeAsked)
	}
	os.Exit(0)
}

// reduce adds numbers with the other ranks until one of them got a signal: the decision to end is
// part of the sum.
func (l *lines) reduce(end <-chan os.Signal, every time.Duration) {
	ctx := context.Background()
	comm, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	size := comm.Size()
	numbers := make([]float64, 4000)
	for step := 0; ; step++ {
		for i := range numbers {
			numbers[i] = float64(comm.Rank() + i + step)
		}
		numbers[0] = 0
		select {
		case s := <-end:
			if s == syscall.SIGUSR2 {
				l.finish(true)
			}
			numbers[0] = 1
		case <-time.After(every):
		}
		if err := ring.AllReduce(ctx, comm, numbers, ring.Sum); err != nil {
			log.Fatal(err)
		}
		for i, got := range numbers[1:] {
			if want := float64(size*(size-1)/2 + size*(i+1+step)); got != want {
				fmt.Printf("WRONG: number %d of step %d is %v, not %v\n", i+1, step, got, want)
				os.Exit(codeWrong)
			}
		}
		l.print("sum")
		if numbers[0] > 0 {
			comm.Close()
			l.finish(false)
		}
	}
}

// startDaemon starts this program in a new session with no environment, no open files and another
// name. Only the mark in its arguments shows its job.
func startDaemon(generation, mark string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"[idle]", generation, mark}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if generation == daemonArg {
		return cmd.Wait() // it only starts the next one
	}
	return cmd.Process.Release()
}

func daemon(args []string) {
	if args[0] == daemonArg {
		if err := startDaemon(daemonArg+"-2", args[1]); err != nil {
			log.Fatal(err)
		}
		return
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	time.Sleep(5 * time.Minute)
}
