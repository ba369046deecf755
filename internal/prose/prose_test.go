package prose

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 MiB", 1 << 19: "0.5 MiB", 64 << 20: "64 MiB", 12_900_000: "12.3 MiB",
		1023 << 20: "1023 MiB",
		2 << 30:    "2 GiB", 1_640_000_000: "1.53 GiB", 100 << 30: "100 GiB", 1200 << 30: "1200 GiB"} {
		check.Equal(t, Size(n), want, n)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"", 0, ""}, {"straße", 6, "straße"}, {"straßen", 6, "str..."}, {"日本語の名前", 5, "日本..."}, {"ab", 1, "..."}} {
		check.Equal(t, Cut(c.text, c.most), c.want, c.text, "in", c.most)
	}
}

func TestAnd(t *testing.T) {
	for want, names := range map[string][]string{
		"":                                  nil,
		"a":                                 {"a"},
		"a and b":                           {"a", "b"},
		"a, b and c":                        {"a", "b", "c"},
		"a, b, c, d, e, f and 1 more host":  {"a", "b", "c", "d", "e", "f", "g"},
		"a, b, c, d, e, f and 2 more hosts": {"a", "b", "c", "d", "e", "f", "g", "h"},
	} {
		check.Equal(t, And(names), want)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		" \r\n ":                               "",
		"one line\n":                           "one line",
		"a\nb\r\n\nc":                          "a; b; c",
		"\x1b[31mred\x1b[0m\a":                 "?[31mred?[0m?",
		"tab\tdel\x7f":                         "tab?del?",
		"c1 \u009b31m":                         "c1 ?31m",
		"cc\u202eexe.nur":                      "cc?exe.nur",
		"\u2066a\u2069\u200f":                  "?a??",
		"a\u2028b\u2029c":                      "a?b?c",
		"zero\u200bwidth\ufeff":                "zero?width?",
		"soft\u00adhyphen":                     "soft?hyphen",
		"tag \U000e0041, \u3164":               "tag ?, ?",
		"f\ufe001, f\U000e01ef1, \u25b6\ufe0f": "f?1, f?1, \u25b6\ufe0f",
		"\x9b31m":                              "\ufffd31m",
		"👍 e\u0301 \u05d0\u05d1":               "👍 e\u0301 \u05d0\u05d1",
		"\x1b]0;title\x07":                     "?]0;title?",
		"Grüße \u00a0 日本":                      "Grüße \u00a0 日本",
		"\x00gorun-agent nonce\n":              "?gorun-agent nonce",
	} {
		check.Equal(t, Printable(text), want, "Printable of", text)
	}
}

func TestPrintableIsBounded(t *testing.T) {
	got := Printable(strings.Repeat("ö", 1<<20) + "\x1b[2J")
	if want := strings.Repeat("ö", maxText/2) + " ... (2093060 bytes left out)"; got != want {
		t.Errorf("%d bytes: %.20q ... %q", len(got), got, got[max(0, len(got)-40):])
	}
	got = Printable(strings.Repeat("\xbf", 3*maxText))
	check.That(t, len(got) <= 4*maxText, "%d bytes of what is no text", len(got))
}

func TestPlainKeepsLinesAndTabs(t *testing.T) {
	check.Equal(t, Plain("a\tb\r\n\u202e\n"), "a\tb?\n?\n")
}

func TestPlainJSONKeepsItsMeaning(t *testing.T) {
	text := "a\u202e\u009b\x7f\u2028\U000e0041\x1b\tß"
	document := must.Get(json.MarshalIndent(text, "", "\t"))(t)
	plain := PlainJSON(append(document, '\n'))
	var got string
	err := json.Unmarshal(plain, &got)
	check.That(t, err == nil && got == text && Plain(string(plain)) == string(plain), "%q: %q, %v", plain, got, err)
}

// FuzzPrintable checks that nothing a host says can move the cursor, be invisible, or change the
// order of other characters.
func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\n\x9b\xff\u009b\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Printable(text) {
			must.That(t, r >= ' ' && (r < 0x7f || r >= 0xa0) && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp),
				"%q lets %q through", text, r)
		}
	})
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		numbers []int
		most    int
		want    string
	}{
		{nil, 0, ""},
		{[]int{0}, 0, "0"},
		{[]int{1, 2, 3, 4}, 1, "1-4"},
		{[]int{0, 2, 3, 5}, 0, "0,2-3,5"},
		{[]int{0, 2, 3, 5}, 2, "0,2-3,..."},
	} {
		got := Ranges(c.numbers, c.most)
		check.That(t, got == c.want, "Ranges(%v, %d) = %q, want %q", c.numbers, c.most, got, c.want)
	}
}
