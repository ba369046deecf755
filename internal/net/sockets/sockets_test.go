package sockets

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestTable(t *testing.T) {
	const line = "   0: %s 0200007F:0050 01 00000000:00000003 00:00000000 00000000  1000        0 77 1 0 20\n"
	for text, want := range map[string]string{
		"0100007F:0016":                         "127.0.0.1:22",
		"0000000000000000FFFF00000100007F:1F90": "127.0.0.1:8080",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"zz":                                    "",
		"0100007F:zz":                           "",
		"01:0016":                               "",
	} {
		got := ""
		for s := range Table("  sl  local_address rem_address\n" + fmt.Sprintf(line, text)) {
			got = s.Local.String()
			check.That(t, s.Remote == netip.MustParseAddrPort("127.0.0.2:80") && s.State == Established &&
				s.UID == 1000 && s.Inode == 77 && s.Queues == "00000000:00000003", "%s: %+v", text, s)
		}
		check.Equal(t, got, want, text)
	}
}

func FuzzParse(f *testing.F) {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	f.Add(request(2, 1, 0, at, at, [8]byte{}))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, more, err := parse(b); err != nil && (more || all != nil) {
			t.Errorf("%v with %v", all, err)
		}
	})
}
