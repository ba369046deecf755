package services

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// No descriptor of another user's process is opened: to close it may wait for that user.
func TestSeverLeavesOtherUsersAlone(t *testing.T) {
	lab.NeedRoot(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	out := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer out.Close()
	in := must.Get(l.Accept())(t)
	defer in.Close()
	file := must.Get(in.(*net.TCPConn).File())(t)
	defer file.Close()
	addrs := map[netip.AddrPort]bool{in.LocalAddr().(*net.TCPAddr).AddrPort(): true}
	for uid, want := range map[uint32]int{65533: 0, 0: 1} {
		child := exec.Command("cat")
		child.ExtraFiles = []*os.File{file}
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		input := must.Get(child.StdinPipe())(t)
		must.OK(t, child.Start())
		check.Equal(t, sever([]int{child.Process.Pid}, addrs), want, "user", uid)
		input.Close()
		_ = child.Wait()
	}
}

// Connections of another process that have a published address at either end are cut; others, and
// those that accept them, are not.
func TestSever(t *testing.T) {
	must.HaveTime(t)
	listen := func() *net.TCPListener {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { l.Close() })
		return l.(*net.TCPListener)
	}
	var files []*os.File
	give := func(c interface{ File() (*os.File, error) }) { // afterwards only the child has it
		f := must.Get(c.File())(t)
		files = append(files, f)
	}
	connect := func() (theirs, ours *net.TCPConn) {
		l := listen()
		out := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		in := must.Get(l.Accept())(t)
		t.Cleanup(func() { in.Close(); out.Close() })
		return in.(*net.TCPConn), out.(*net.TCPConn)
	}
	addrOf := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

	accepted, fromAccepted := connect()
	dialledTo, dialled := connect()
	other, fromOther := connect()
	waiting := listen()
	for _, c := range []*net.TCPConn{accepted, dialled, other} {
		give(c)
	}
	give(waiting)
	addrs := map[netip.AddrPort]bool{addrOf(accepted.LocalAddr()): true, addrOf(dialledTo.LocalAddr()): true,
		addrOf(waiting.Addr()): true}
	child := exec.Command("cat")
	child.ExtraFiles = files
	input, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	must.OK(t, err)
	defer func() { input.Close(); _ = child.Wait() }()
	for _, f := range files {
		f.Close()
	}
	for _, c := range []*net.TCPConn{accepted, dialled, other} {
		c.Close()
	}
	waiting.Close()

	check.Equal(t, sever([]int{child.Process.Pid}, addrs), 2, "connections were cut, and 2 are of the epoch")
	for name, c := range map[string]*net.TCPConn{"accepted": fromAccepted, "dialled": dialledTo} {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		check.Error(c.Read(make([]byte, 1))).Is(t, io.EOF, "the", name, "connection")
	}
	_ = fromOther.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	check.Error(fromOther.Read(make([]byte, 1))).Is(t, os.ErrDeadlineExceeded,
		"a connection that is none of the epoch's")
	if c, err := net.Dial("tcp", waiting.Addr().String()); err != nil {
		t.Errorf("nobody listens any more: %v", err)
	} else {
		c.Close()
	}
	check.Equal(t, sever([]int{child.Process.Pid}, nil), 0, "connections were cut for no address")
}
