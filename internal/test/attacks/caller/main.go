// Caller connects to ADDR, a unix socket if it is an absolute path, from the local port -from if it
// is not 0, sends its stdin and prints the local port on a line. With -reset it resets the
// connection then, else it prints what it receives. With -listen it is a server at ADDR, which
// everybody may use: it prints what it receives, and answers each connection with its stdin. With
// -flood N it makes N connections that say its stdin and read nothing, prints "flooded" and waits
// to be killed; with -storm, too, it makes a new one whenever the server closes one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	from := flag.Int("from", 0, "local `port`")
	reset := flag.Bool("reset", false, "reset the connection when all is sent")
	listens := flag.Bool("listen", false, "listen")
	flood := flag.Int("flood", 0, "make so many `connections`")
	storm := flag.Bool("storm", false, "make connections that are closed again")
	flag.Parse()
	if *flood > 0 {
		fmt.Fprintln(os.Stderr, "caller:", fill(*flood, *storm, flag.Arg(0)))
		os.Exit(1)
	}
	if *listens {
		fmt.Fprintln(os.Stderr, "caller:", listen(flag.Arg(0)))
		os.Exit(1)
	}
	if err := call(*from, *reset, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "caller:", err)
		os.Exit(1)
	}
}

// networkOf returns the network of an address.
func networkOf(addr string) string {
	if filepath.IsAbs(addr) {
		return "unix"
	}
	return "tcp"
}

func call(from int, reset bool, addr string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if from != 0 {
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: from}
	}
	dialer.SetMultipathTCP(false)
	conn, err := dialer.Dial(networkOf(addr), addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(text); err != nil {
		return err
	}
	if own, is := conn.LocalAddr().(*net.TCPAddr); is {
		fmt.Println(own.Port)
	}
	if reset {
		return conn.(*net.TCPConn).SetLinger(0)
	}
	if _, err = io.Copy(os.Stdout, conn); errors.Is(err, syscall.ECONNRESET) {
		return nil // the other end did not read all
	}
	return err
}

// fill makes n connections, says stdin on each, and holds them. Those that the server closes count
// as well; in a storm each of them is made anew.
func fill(n int, storm bool, addr string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	for range n {
		conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, _ = conn.Write(text) // the server may have closed it
		if storm {
			go renew(conn, text, addr)
		}
	}
	fmt.Println("flooded")
	time.Sleep(time.Hour)
	return nil
}

// renew makes a connection anew whenever the server closes it, to the end of the program.
func renew(conn net.Conn, text []byte, addr string) {
	for {
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		next, err := net.Dial("tcp", addr)
		if err != nil { // the server has ended
			return
		}
		conn = next
		_, _ = conn.Write(text)
	}
}

// listen serves until it fails.
func listen(addr string) error {
	answer, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	network := networkOf(addr)
	l, err := net.Listen(network, addr)
	if err == nil && network == "unix" {
		err = os.Chmod(addr, 0o666)
	}
	if err != nil {
		return err
	}
	fmt.Println("listens")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		fmt.Printf("got %q\n", buf[:n])
		_, _ = conn.Write(answer) // the client may have gone
		conn.Close()
	}
}
