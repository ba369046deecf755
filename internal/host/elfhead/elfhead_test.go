package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Programs name the same libraries as by debug/elf.
func TestNeededOfPrograms(t *testing.T) {
	for _, path := range []string{"/bin/sh", "/bin/ls", "/proc/self/exe"} {
		file := must.Get(os.Open(path))(t)
		defer file.Close()
		whole := must.Get(elf.NewFile(file))(t)
		want, _ := whole.ImportedLibraries()
		got := must.Get(Segments(file))(t)
		check.Slice(t, Needed(got), want, path)
		sections := must.Get(Sections(file))(t)
		check.That(t, len(sections.Sections) == len(whole.Sections), "%s has %d sections, want %d", path,
			len(sections.Sections), len(whole.Sections))
	}
}

// hostile returns an ELF file with a name of long bytes that each of count sections has, and each
// of count entries of the dynamic section.
func hostile(long, count int, flags elf.SectionFlag) []byte {
	const segments = headSize
	const names = segments + 2*56
	entries := names + long
	sections := entries + 16*(count+2)
	var file bytes.Buffer
	write := func(value any) { _ = binary.Write(&file, binary.LittleEndian, value) } // to memory
	head := elf.Header64{
		Type:      uint16(elf.ET_DYN),
		Machine:   uint16(elf.EM_X86_64),
		Version:   1,
		Phoff:     segments,
		Shoff:     uint64(sections),
		Phentsize: 56,
		Phnum:     2,
		Shentsize: 64,
		Shnum:     uint16(count + 1),
		Shstrndx:  1,
	}
	copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	write(head)
	write(elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: uint64(sections), Memsz: uint64(sections)})
	write(elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: uint64(entries), Filesz: uint64(sections - entries)})
	file.WriteString("\x00" + strings.Repeat("a", long-2) + "\x00")
	write(elf.Dyn64{Tag: int64(elf.DT_STRTAB), Val: names})
	for range count {
		write(elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: 1})
	}
	write(elf.Dyn64{})
	write(elf.Section64{})
	write(elf.Section64{
		Name:  1,
		Type:  uint32(elf.SHT_STRTAB),
		Flags: uint64(flags),
		Off:   names,
		Size:  uint64(long),
	})
	for range count - 1 {
		write(elf.Section64{
			Name:    1,
			Type:    uint32(elf.SHT_DYNAMIC),
			Off:     uint64(entries),
			Size:    uint64(sections - entries),
			Link:    1,
			Entsize: 16,
		})
	}
	return file.Bytes()
}

// Names that many parts of a file share take no memory for each.
func TestHostileFiles(t *testing.T) {
	const most = 32 << 20
	for what, file := range map[string][]byte{
		"one long name":    hostile(1<<20, 2000, 0),
		"many short names": hostile(1<<10, 60_000, 0),
		"compressed names": hostile(1<<10, 100, elf.SHF_COMPRESSED),
		"a usual file":     hostile(16, 20, 0),
		"a file cut off":   hostile(16, 20, 0)[:headSize+60],
		"nothing":          nil,
		"a table elsewhere": slices.Concat(hostile(16, 20, 0)[:40], bytes.Repeat([]byte{0xff}, 8),
			hostile(16, 20, 0)[48:]),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Segments(bytes.NewReader(file))
		if err == nil {
			needed := Needed(f)
			check.That(t, len(needed) <= maxNeeded, "%s: %d names", what, len(needed))
			check.That(t, what != "a usual file" || len(needed) == 20 && needed[19] == strings.Repeat("a", 14),
				"%s: %q", what, needed)
		}
		_, err = Sections(bytes.NewReader(file))
		check.That(t, (err == nil) == (what == "a usual file"), "%s: the sections: %v", what, err)
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		check.That(t, took < most, "%s took %d bytes", what, took)
	}
}
