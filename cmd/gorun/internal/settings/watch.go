package settings

import (
	"github.com/spf13/pflag"
)

// Watch is who else sees what the job uses.
type Watch struct {
	Metrics string // a file, or an address; "": none
	Record  string // a folder; "": none
}

func (w *Watch) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.Metrics, "metrics", "", "offer the use of ranks and hosts to Prometheus: a FILE for "+
		"node_exporter's textfile collector (OpenMetrics if it ends in .om), or an address such as 127.0.0.1:9400")
	flags.StringVar(&w.Record, "record", "",
		"record what ranks and hosts use in a new folder DIR, for gorun report DIR")
}

// Given reports whether somebody sees the job besides those who ask its socket.
func (w *Watch) Given() bool { return w.Metrics != "" || w.Record != "" }
