package stacks

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/gorun/gorun/internal/test/must"
)

// A host's reports are shown in bounded time as lines of plain text.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"rank":0,"processes":[{"name":"a\u001bb\nc","threads":[{"frames":[{"func":"f\n","line":-1}]}]}]}`))
	f.Add([]byte(`{"rank":1,"record":{"rank":-1,"size":1000000000000,"comms":[{"id":1,"size":1073741824,"count":9,` +
		`"calls":[{"number":9,"to":-7,"from":2147483647,"name":"\u202e"}]}]}}`))
	f.Add([]byte(`{"rank":1,"nccl_ras":{"comms":[{"hash":"x","ranks":[{"rank":-1}],"missing":[{}]}],"lines":["\n"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var hostile Rank
		if json.Unmarshal(data, &hostile) != nil {
			return
		}
		hostile.Trim()
		honest := Rank{Rank: 0, Host: "f1"}
		text := View{Size: 3, All: true}.Text([]Rank{honest, hostile}) + Alone(hostile, 20)
		for _, c := range strings.ReplaceAll(text, "\n", "") {
			must.That(t, !unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp), "%q is shown in %q", c, text)
		}
	})
}
