package settings

// Watch is who else sees what the job uses.
type Watch struct {
	Metrics string // a file, or an address; "": none
	Record  string // a folder; "": none
}

// Given reports whether somebody sees the job besides those who ask its socket.
func (w *Watch) Given() bool { return w.Metrics != "" || w.Record != "" }
