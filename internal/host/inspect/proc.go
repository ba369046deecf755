package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/net/sockets"
)

// waits says in which system call the process's main thread waits, and for what, as far as the
// kernel tells.
func (s *subject) waits(sockets map[string]string) string {
	text, err := s.own.Text("syscall")
	fields := strings.Fields(text)
	if err != nil || len(fields) < 2 {
		return "" // "running", or not allowed
	}
	number, err := strconv.Atoi(fields[0])
	if err != nil || number < 0 {
		return ""
	}
	name, known := callNames()[number]
	if !known {
		return fmt.Sprintf("in system call %d", number)
	}
	if !slices.Contains([]string{"read", "write", "recvfrom", "recvmsg", "sendto", "sendmsg", "accept", "accept4",
		"connect", "ioctl", "fsync", "flock", "pread64", "pwrite64", "readv", "writev"}, name) {
		return "in " + name
	}
	fd, err := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 32)
	if err != nil {
		return "in " + name
	}
	file := s.own.Link("fd/" + strconv.FormatUint(fd, 10))
	if file == "" {
		return "in " + name
	}
	if socket, is := sockets[inode(file)]; is {
		file = socket
	} else if strings.HasPrefix(file, "pipe:") { // its number differs from rank to rank
		file = "a pipe"
	} else if strings.HasPrefix(file, "socket:") {
		file = "a socket"
	}
	return fmt.Sprintf("in %s of %s (fd %d)", name, file, fd)
}

// callNames names the system calls in which programs wait.
func callNames() map[int]string {
	names := map[int]string{
		unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_READV: "readv", unix.SYS_WRITEV: "writev",
		unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64",
		unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SENDTO: "sendto",
		unix.SYS_SENDMSG: "sendmsg", unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4",
		unix.SYS_CONNECT: "connect", unix.SYS_FUTEX: "futex (a lock or a condition)", unix.SYS_PPOLL: "ppoll",
		unix.SYS_PSELECT6: "pselect6", unix.SYS_EPOLL_PWAIT: "epoll_pwait",
		unix.SYS_WAIT4: "wait4 (for a child process)", unix.SYS_WAITID: "waitid (for a child process)",
		unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep",
		unix.SYS_FSYNC: "fsync", unix.SYS_FLOCK: "flock", unix.SYS_FCNTL: "fcntl", unix.SYS_IOCTL: "ioctl",
		unix.SYS_OPENAT: "openat", unix.SYS_SCHED_YIELD: "sched_yield",
		unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait", unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
		unix.SYS_SEMTIMEDOP: "semtimedop", unix.SYS_MSGRCV: "msgrcv", unix.SYS_RESTART_SYSCALL: "restart_syscall",
		unix.SYS_IO_GETEVENTS: "io_getevents", unix.SYS_IO_URING_ENTER: "io_uring_enter", unix.SYS_MSYNC: "msync",
	}
	for number, name := range oldCallNames() {
		names[number] = name
	}
	return names
}

// inode returns the number in "socket:[NUMBER]", or "".
func inode(link string) string {
	number, is := strings.CutPrefix(link, "socket:[")
	if !is {
		return ""
	}
	return strings.TrimSuffix(number, "]")
}

// sockets names the process's network connections, at most so many.
func (s *subject) sockets(names map[string]string, most int) (all []string) {
	for _, fd := range s.own.Names("fd") {
		if name, known := names[inode(s.own.Link("fd/"+fd))]; known && len(all) < most {
			all = append(all, name)
		}
	}
	return all
}

// socketNames returns the TCP sockets of the process's network, by inode.
func socketNames(p *process.Process) map[string]string {
	names := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := p.Text("net/" + table)
		for s := range sockets.Table(text) {
			name := fmt.Sprintf("tcp %v -> %v", s.Local, s.Remote)
			if s.State == sockets.Listen {
				name = fmt.Sprintf("tcp %v (listening)", s.Local)
			} else if s.Queues != "00000000:00000000" {
				name += " (queues " + s.Queues + ")"
			}
			if s.Inode != 0 {
				names[fmt.Sprint(s.Inode)] = name
			}
		}
	}
	return names
}
