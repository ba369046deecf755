package untrusted

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestValuesAreCounted(t *testing.T) {
	for text, values := range map[string]int{
		`[1, 2]`:                          3,
		`{"a": {"b": "\"[,{", "c": [7]}}`: 5,
		`["\\", ",,,", "\u005b"]`:         4,
	} {
		var got any
		check.OK(t, Unmarshal([]byte(text), values, &got))
		check.Error(Unmarshal([]byte(text), values-1, &got)).Says(t, "values", text, "has more than", values-1,
			"values")
	}
	for _, text := range []string{``, `"`, `"\`, `[`, `{"a`} {
		var got any
		check.That(t, Unmarshal([]byte(text), 9, &got) != nil, "%q is JSON", text)
	}
}

// Many small values take no memory before they are refused.
func TestManyValuesTakeNoMemory(t *testing.T) {
	const most = 1 << 10
	text := []byte("[" + strings.Repeat("{},", 1<<22) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var got []struct{ Large [100]int }
	err := Unmarshal(text, most, &got)
	runtime.ReadMemStats(&after)
	must.That(t, err != nil, "they are not refused")
	used := after.TotalAlloc - before.TotalAlloc
	check.That(t, used < 1<<20, "they take %d MiB", used>>20)
}

// Bytes are kept in memory of their length: line breaks in base64, which add nothing to them, would
// make it as long as a host likes.
func TestBytesHaveNoSpareMemory(t *testing.T) {
	type named struct {
		Inner struct {
			Values map[int][]byte
			List   []*struct{ Sum []byte }
		}
		Text, Key string
		Raw       json.RawMessage
	}
	breaks := strings.Repeat(`\n`, 1<<10)
	for text, fits := range map[string]bool{
		`{"Inner": {"Values": {"1": "YWJj", "2": ""}}, "Text": "` + breaks + `", "Raw": "` + breaks + `"}`: true,
		`{"Inner": {"Values": {"1": "YQ==", "2": "YWI="}}, "Key": "\\r"}`:                                  true,
		`{"Inner": {"Values": {"1": "YWJj", "2": "` + breaks + `"}}}`:                                      false,
		`{"Inner": {"List": [null, {"Sum": "YWJj` + breaks + `"}]}}`:                                       false,
		`{"Inner": {"List": [{"Sum": "` + strings.Repeat(`\u000D`, 9) + `"}]}}`:                            false,
		`{"Inner": {"List": [{"Sum": "` + strings.Repeat(`\u000a`, 9) + `"}]}}`:                            false,
		`{"Inner": {"List": [{"Sum": "` + strings.Repeat(`\r`, 9) + `"}]}}`:                                false,
	} {
		var got named
		err := Unmarshal([]byte(text), 100, &got)
		check.That(t, (err == nil) == fits, "%.60s: %v", text, err)
	}
}
