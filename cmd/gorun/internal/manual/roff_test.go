package manual

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestRoff(t *testing.T) {
	page := Page{
		Name:     "gorun-x",
		Short:    "do x-y",
		Version:  "gorun 1",
		Synopsis: []string{"gorun x [flags]", "gorun x -"},
		Sections: []Section{
			{Title: "Description", Text: "One.\n\n.Two\\n"},
			{Title: "Options", Terms: []Term{{"-n, --np int", "'ranks'"}}},
			{Title: "Examples", Plain: "  a\n.b\n"},
		},
	}
	want := `.TH "GORUN-X" 1 "" "gorun 1" "User Commands"
.nh
.ad l
.SH NAME
gorun\-x \- do x\-y
.SH SYNOPSIS
gorun x [flags]
.br
gorun x \-
.SH "DESCRIPTION"
One.
.PP
\&.Two\en
.SH "OPTIONS"
.TP
.B \-n, \-\-np int
\&'ranks'
.SH "EXAMPLES"
.PP
.nf
  a
\&.b
.fi
`
	check.Equal(t, page.Roff(), want)
}
