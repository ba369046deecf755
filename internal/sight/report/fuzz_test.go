package report

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/test/must"
)

// A folder's files may be anybody's. The page has the elements of a report and no others.
func FuzzReport(f *testing.F) {
	const sample = `{"t":1000000000000000%T,"hn":["<b>"],"r":{"c":[1e17],"m":[9223372036854775807],"rd":[0],"wr":[0],"lt":[-1]},` +
		`"h":{"c":[1],"m":[1],"in":[0],"out":[0]}}` + "\n"
	f.Add([]byte(`{"version":2,"size":2,"program":["<script>"]}`),
		[]byte(strings.ReplaceAll(sample, "%T", "00")+strings.ReplaceAll(sample, "%T", "16")),
		[]byte(`{"at":"2026-01-01T00:00:00Z","what":"exited","text":"<script>\u0000"}`))
	f.Add([]byte(`{"version":2,"size":-1}`), []byte(`{"t":1e308,"r":{"c":[1],"m":[1,2]}}`), []byte(`[`))
	f.Fuzz(func(t *testing.T, run, samples, events []byte) {
		dir := t.TempDir()
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write(samples)
		must.OK(t, zip.Close())
		for name, text := range map[string][]byte{
			"run.json":         run,
			"samples.jsonl.gz": packed.Bytes(),
			"events.jsonl":     events,
		} {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		r, err := record.Read(dir)
		if err != nil {
			return
		}
		page := strings.Replace(own(write(t, Run{Record: r})), "<!doctype html>", "", 1)
		for d := xml.NewDecoder(strings.NewReader(page)); ; {
			switch token, err := d.Token(); element := token.(type) {
			case nil:
				must.That(t, err == io.EOF, "%v", err)
				return
			case xml.StartElement:
				data := len(element.Attr) == 1 && element.Attr[0].Value == "application/json"
				must.That(t, (element.Name.Local != "script" || data) && element.Name.Local != "b",
					"the page has <%s>", element.Name.Local)
			}
		}
	})
}
