// Command duplex is one end of a plain TCP connection that carries as many bytes both ways
// at the same time: what sockets of package net can do, for comparison. Both ends
// write the whole vector at once. The listening end first prints where it listens,
// and then for each size: bytes and the median time of one exchange in µs.
//
//	duplex listen|dial ADDR CONGESTION|- MINBYTES MAXBYTES
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	step   = 4        // factor between sizes
	inline = 64 << 10 // what fits into the sockets' buffers is written before it is read
	budget = 200 * time.Millisecond
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "duplex:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 5 {
		return errors.New("usage: duplex listen|dial ADDR CONGESTION|- MINBYTES MAXBYTES")
	}
	low, err1 := strconv.Atoi(args[3])
	high, err2 := strconv.Atoi(args[4])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	conn, err := connect(args[0] == "listen", args[1], args[2])
	if err != nil {
		return err
	}
	defer conn.Close()
	e := newEnd(conn, high)
	defer e.close()
	for size := low; size <= high; size *= step {
		us, err := e.measure(size, args[0] == "listen")
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if args[0] == "listen" {
			fmt.Printf("%d %.3f\n", size, us)
		}
	}
	return nil
}

func connect(listen bool, addr, congestion string) (net.Conn, error) {
	control := func(_, _ string, raw syscall.RawConn) (err error) {
		if congestion == "-" {
			return nil
		}
		cerr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
		})
		return errors.Join(cerr, err)
	}
	if !listen {
		d := net.Dialer{Control: control}
		return d.Dial("tcp", addr)
	}
	lc := net.ListenConfig{Control: control}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Println(l.Addr())
	return l.Accept()
}

// end is one end of the connection.
type end struct {
	conn    net.Conn
	out, in []byte
	begin   chan int // sizes for the goroutine that writes large vectors
	sent    chan error
}

func newEnd(conn net.Conn, high int) *end {
	e := &end{conn: conn, out: make([]byte, high), in: make([]byte, high), begin: make(chan int), sent: make(chan error)}
	for i := range e.out {
		e.out[i] = byte(i % 251)
	}
	go func() {
		for size := range e.begin {
			_, err := conn.Write(e.out[:size])
			e.sent <- err
		}
		close(e.sent)
	}()
	return e
}

// close waits for the goroutine, then closes the connection.
func (e *end) close() {
	close(e.begin)
	<-e.sent
}

// swap sends and receives size bytes.
func (e *end) swap(size int) error {
	if size <= inline {
		if _, err := e.conn.Write(e.out[:size]); err != nil {
			return err
		}
		_, err := io.ReadFull(e.conn, e.in[:size])
		return err
	}
	e.begin <- size
	_, err := io.ReadFull(e.conn, e.in[:size])
	if err != nil {
		_ = e.conn.Close() // so that writing ends
	}
	return errors.Join(err, <-e.sent)
}

// measure returns the median time of a swap. The leading end decides how many there are.
func (e *end) measure(size int, leads bool) (float64, error) {
	clear(e.in[:size])
	const warmUps = 3
	begun := time.Now()
	for range warmUps {
		if err := e.swap(size); err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(e.in[:size], e.out[:size]) {
		return 0, errors.New("other bytes came than were sent")
	}
	var count [8]byte
	if leads {
		each := time.Since(begun) / warmUps
		binary.LittleEndian.PutUint64(count[:], uint64(min(max(budget/max(each, 1), 9), 50_000)))
		if _, err := e.conn.Write(count[:]); err != nil {
			return 0, err
		}
	} else if _, err := io.ReadFull(e.conn, count[:]); err != nil {
		return 0, err
	}
	samples := make([]float64, binary.LittleEndian.Uint64(count[:]))
	for i := range samples {
		begun := time.Now()
		if err := e.swap(size); err != nil {
			return 0, err
		}
		samples[i] = time.Since(begun).Seconds() * 1e6
	}
	slices.Sort(samples)
	return samples[len(samples)/2], nil
}
