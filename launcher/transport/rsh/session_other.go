//go:build !linux

package rsh

import "syscall"

// ownSession starts a program in a new session, which keeps Ctrl-C and password prompts of the
// terminal away. If gorun is killed, the program ends with its standard input.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
