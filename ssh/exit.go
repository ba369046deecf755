package ssh

import (
	"encoding/binary"

	xssh "golang.org/x/crypto/ssh"
)

// parseExit parses the two requests that report how a command ended (RFC 4254, 6.10). ok is false
// for others and for a truncated one.
func parseExit(request string, payload []byte) (e ExitError, ok bool) {
	switch request {
	case "exit-status":
		if len(payload) < 4 {
			return e, false
		}
		return ExitError{Status: int(binary.BigEndian.Uint32(payload))}, true
	case "exit-signal":
		var message struct {
			Signal string
			Core   bool
			Text   string
			Lang   string
		}
		if xssh.Unmarshal(payload, &message) != nil {
			return e, false
		}
		return ExitError{Status: 128 + signalNumber(message.Signal), Signal: or(message.Signal, "unknown")}, true
	}
	return e, false
}

// signalNumber returns the number of a signal of RFC 4254, which all POSIX systems share, or 0.
func signalNumber(name string) int {
	numbers := map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8,
		"KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	}
	return numbers[name]
}
