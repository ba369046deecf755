package settings

// Watch holds the places to which the job's resource use is exported.
type Watch struct {
	Metrics string // a file, or an address; "": none
	Record  string // a folder; "": none
}

// Given reports whether the job exports its resource use, besides over its socket.
func (w *Watch) Given() bool { return w.Metrics != "" || w.Record != "" }
