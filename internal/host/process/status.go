package process

import (
	"strconv"
	"strings"
)

// Field returns the words of a line of /proc/PID/status, such as "Uid:". There are none if status
// has no such line.
func Field(status, name string) []string {
	for line := range strings.Lines(status) {
		if words, is := strings.CutPrefix(line, name); is {
			return strings.Fields(words)
		}
	}
	return nil
}

// Catches reports whether a process with this status has a handler for a signal.
func Catches(status string, signal int) bool {
	caught, err := strconv.ParseUint(strings.Join(Field(status, "SigCgt:"), ""), 16, 64)
	return err == nil && caught>>(signal-1)&1 == 1
}
