package pickle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"N.rest": "<nil>", "\x88.": "true", "M\x01\x02.": "513", "J\xff\xff\xff\xff.": "-1", "\x8a\x01\xfe.": "-2",
		"G?\xf8\x00\x00\x00\x00\x00\x00.": "1.5", "X\x01\x00\x00\x00a.": "a", "C\x02ab.": "[97 98]",
		"B\x01\x00\x00\x00a.": "[97]", "K\x01K\x02\x86.": "&{[1 2]}", "]q\x00K\x01a.": "&{[1]}",
		"\x80\x04\x8c\x01a\x94h\x00\x86.":                "&{[a a]}",
		"}(\x8c\x01bK\x01\x8c\x01aK\x02\x8c\x01bK\x03u.": "&{map[a:2 b:3] [b a]}",
	} {
		value, rest, err := Read([]byte(text), 100)
		got := fmt.Sprint(value)
		check.That(t, err == nil && got == want, "%q: %s, %v, want %s", text, got, err, want)
		check.That(t, text != "N.rest" || string(rest) == "rest", "%q is left", rest)
	}
}

func TestBrokenPickles(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                 "",
		"the end without a value": "\x80\x02.",
		"a length beyond its end": "\x80\x02X\xff\xff\xff\xffab.",
		"a value taken twice":     "\x80\x02K\x01\x86.",
		"a mark without an end":   "\x80\x02(K\x01",
		"no mark":                 "\x80\x02]e.",
		"a key that is no string": "\x80\x02}K\x01K\x01s.",
		"a long key":              "\x80\x02}X\x01\x04\x00\x00" + strings.Repeat("k", 1025) + "Ns.",
		"an odd number of values": "\x80\x02}(K\x01u.",
		"a value not remembered":  "\x80\x02h\x07.",
		"a memo with holes":       "\x80\x02Nr\xff\xff\xff\x7f.",
		"a long number":           "\x80\x02\x8a\x09123456789.",
		"a class":                 "\x80\x02cos\nsystem\n.",
		"an object":               "\x80\x04\x8c\x02os\x8c\x06system\x93.",
		"many values":             "\x80\x02" + strings.Repeat("N", 101) + ".",
	} {
		value, _, err := Read([]byte(text), 100)
		check.That(t, err != nil, "%s: %+v", name, value)
	}
	check.Error(Read([]byte("\x80\x02}X\x07\x00\x00\x00versionX\x01\x00\x00\x002sh\x00."), 100)).Any(t,
		"a reference before the first value is accepted")
}
