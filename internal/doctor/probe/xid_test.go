package probe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestXidsAreCounted(t *testing.T) {
	c := newXidCounter()
	for _, record := range []string{
		"4,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
		"4,1235,5679,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
		"4,1236,5680,-;NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python\n",
		"4,1237,5681,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n",
		"4,1238,5682,-;NVRM: Xid (PCI:\x1b[2J): 79, evil\n",
		"12,1239,5683,-;NVRM: Xid (PCI:0000:3b:00): 79, of a process that may write to the log\n",
	} {
		c.add([]byte(record))
	}
	want := []doctor.Xid{{Bus: "0000:01:00", Code: 31, Count: 1},
		{Bus: "0000:3b:00", Code: 79, Count: 2}}
	check.Slice(t, c.all(), want)
	got := xids(t.Context(), filepath.Join(t.TempDir(), "absent"))
	check.That(t, got == nil, "%+v without a log", got)
	log := filepath.Join(t.TempDir(), "kmsg")
	must.OK(t, os.WriteFile(log, []byte("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=1\n"), 0o600))
	got = xids(t.Context(), log)
	check.That(t, len(got) == 1 && got[0].Code == 48, "%+v", got)
}

// The kernel tells of a program that has crashed by its file's name, which is anybody's choice.
func TestNamesOfProgramsAreNoXids(t *testing.T) {
	c := newXidCounter()
	c.add([]byte("6,1109,4884993598,-;NVRM: Xid (PCI:[13104]: segfault at 8 ip 000056079dce1132 sp 00007fffbb466eb0 " +
		"error 6 in NVRM: Xid (PCI:0000:01:00): 79, x[1132,56079dce1000+1000] likely on CPU 1 (core 1, socket 0)\n"))
	c.add([]byte("4,1110,4884993599,-;process '/tmp/;NVRM: Xid (PCI:0000:01:00): 79, x' started with executable " +
		"stack\n"))
	check.That(t, len(c.all()) == 0, "%+v", c.all())
}
