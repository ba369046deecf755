package usage

import (
	"strconv"
)

// Count writes a number of things, such as "1 rank" and "2 ranks". The plural is made with s.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
