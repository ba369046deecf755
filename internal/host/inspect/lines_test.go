package inspect

import (
	"bytes"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// unitAt is information for debuggers about one function, at address 0x1000 to 0x2000, and the
// header of its lines, of version 5, which says that it has as many directories.
func unitAt(t *testing.T, directories uint64) *dwarf.Data {
	t.Helper()
	// A compilation unit without children: low_pc addr, high_pc udata, stmt_list sec_offset.
	abbrev := []byte{1, 0x11, 0, 0x11, 0x01, 0x12, 0x0f, 0x10, 0x17, 0, 0, 0}
	little := binary.LittleEndian
	entry := little.AppendUint64([]byte{1}, 0x1000)
	entry = binary.AppendUvarint(entry, 0x1000)
	entry = little.AppendUint32(entry, 0)
	info := little.AppendUint32(nil, uint32(8+len(entry)))
	info = little.AppendUint16(info, 5)
	info = append(info, 1, 8) // a compilation unit, with addresses of 8 bytes
	info = little.AppendUint32(info, 0)
	info = append(info, entry...)

	header := []byte{1, 1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1}
	if directories > 0 {
		header = append(header, 0) // of which nothing is said
		header = binary.AppendUvarint(header, directories)
	} else {
		header = append(header, 1, 1, 8, 1) // their paths, as texts
		header = append(header, "/x\x00"...)
		header = append(header, 2, 1, 8, 2, 0x0b, 2) // paths of files, and the directory of each
		header = append(header, "a.c\x00\x00b.c\x00\x00"...)
	}
	program := []byte{0, 9, 2}
	program = little.AppendUint64(program, 0x1000)
	program = append(program, 3, 6, 1, 2) // line 7, a row, and up to the end
	program = binary.AppendUvarint(program, 0x1000)
	program = append(program, 0, 1, 1)
	line := little.AppendUint16(nil, 5)
	line = append(line, 8, 0)
	line = little.AppendUint32(line, uint32(len(header)))
	line = append(append(line, header...), program...)
	line = append(little.AppendUint32(nil, uint32(len(line))), line...)
	return must.Get(dwarf.New(abbrev, nil, nil, info, line, nil, nil, nil))(t)
}

// known returns sources that have read a file, and what a process has of it.
func known(debug *dwarf.Data) (*sources, *source, []mapping) {
	f := &source{debug: debug, loads: []elf.ProgHeader{{Off: 0, Vaddr: 0, Filesz: 0x4000}}}
	f.once.Do(func() {})
	return &sources{files: map[string]*source{"1": f}}, f,
		[]mapping{{from: 0x70000, to: 0x74000, mode: "r-xp", id: "1", path: "/x/p"}}
}

// A rank's file may say that it has very many directories, for which debug/dwarf would take memory.
func TestHostileLinesAreSkipped(t *testing.T) {
	c, _, maps := known(unitAt(t, 0))
	var f stacks.Frame
	c.line(t.Context(), maps, 0x71234, &f)
	check.Equal(t, f.String(), " (x/b.c:7)", "a file that is not hostile")
	c, _, maps = known(unitAt(t, 1<<62))
	f = stacks.Frame{Func: "f"}
	c.line(t.Context(), maps, 0x71234, &f)
	check.Equal(t, f, stacks.Frame{Func: "f"}, "a hostile file")
}

// Where a file keeps its reader busy, the search for lines ends with its time.
func TestLinesEndWithTheirTime(t *testing.T) {
	c, file, maps := known(unitAt(t, 0))
	file.mu.Lock() // as one that is busy
	defer file.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	f := stacks.Frame{Func: "f"}
	c.line(ctx, maps, 0x71234, &f)
	check.Equal(t, f, stacks.Frame{Func: "f"})
	c, _, maps = known(unitAt(t, 0))
	c.line(ctx, maps, 0x71234, &f)
	check.Equal(t, f, stacks.Frame{Func: "f"}, "without time")
}

// A process may have very many files.
func TestDebugInformationIsBounded(t *testing.T) {
	var c sources
	check.That(t, !c.take(maxDebug+1) && c.take(0), "a file")
	taken := 0
	for c.take(maxDebug) {
		taken++
	}
	check.Equal(t, taken, maxAllDebug/maxDebug)
}

// TestMemoryIsBounded runs itself in a process that takes more memory than it may.
func TestMemoryIsBounded(t *testing.T) {
	const variable = "GORUN_TEST_TAKES_MEMORY"
	if os.Getenv(variable) != "" {
		boundMemory(1 << 30)
		kept := [][]byte{make([]byte, 16<<20)}
		fmt.Println("begun")
		for range 1000 {
			kept = append(kept, make([]byte, 16<<20))
		}
		fmt.Println("ended", len(kept))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryIsBounded$")
	cmd.Env = append(os.Environ(), variable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	err := cmd.Run()
	check.That(t, err != nil && strings.Contains(out.String(), "begun") && !strings.Contains(out.String(), "ended"),
		"%v: %s; %.300s", err, &out, &errs)
	check.That(t, strings.Contains(errs.String(), "memory") || strings.Contains(errs.String(), "failed to allocate"),
		"%.300s", &errs) // the second is of the race detector
}
