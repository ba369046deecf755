package settings

import (
	"net"
	"strconv"
)

// Watch holds the places to which the job's resource use is exported.
type Watch struct {
	Metrics string // a file, or an address; "": none
	Record  string // a folder; "": none
}

// Given reports whether the job exports its resource use, besides over its socket.
func (w *Watch) Given() bool { return w.Metrics != "" || w.Record != "" }

// noPort reports whether the metrics have an address whose port cannot be.
func (w *Watch) noPort() bool {
	if w.Metrics == "" || unlessAddress(w.Metrics) {
		return false
	}
	_, port, _ := net.SplitHostPort(w.Metrics)
	_, err := strconv.ParseUint(port, 10, 16)
	return err != nil
}
