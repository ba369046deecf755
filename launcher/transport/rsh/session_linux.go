package rsh

import "syscall"

// ownSession starts a program in a new session, which keeps Ctrl-C and password prompts of the
// terminal away. The program ends with the thread that started it if gorun is killed.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}
