// Package elfhead reads the headers of ELF files that somebody else may have written, in bounded
// memory. debug/elf copies the name of each section, and each name that a dynamic section has:
// thousands of them may be one text of a megabyte.
package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
)

const (
	headSize = 64 // of elf.Header64

	maxSections = 1 << 14
	maxNames    = 16 << 20 // bytes of all sections' names
)

// Segments returns an ELF file as if it had no sections. A file that is cut off lacks their table,
// without which debug/elf reads no other.
func Segments(file io.ReaderAt) (*elf.File, error) {
	head := make([]byte, headSize)
	n, _ := file.ReadAt(head, 0)
	return elf.NewFile(&changed{file, withoutSections(head[:n])})
}

// changed is an ELF file with another header.
type changed struct {
	file io.ReaderAt
	head []byte
}

func (c *changed) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.file.ReadAt(p, off)
	if off >= 0 && off < int64(len(c.head)) {
		copy(p[:n], c.head[off:])
	}
	return n, err
}

// withoutSections returns the beginning of an ELF file, changed such that it has no sections.
func withoutSections(head []byte) []byte {
	head = bytes.Clone(head)
	fields := [][2]int{{0x20, 0x24}, {0x30, 0x34}} // e_shoff; e_shnum and e_shstrndx
	if len(head) > elf.EI_CLASS && elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS64 {
		fields = [][2]int{{0x28, 0x30}, {0x3c, 0x40}}
	}
	for _, f := range fields {
		if len(head) >= f[1] {
			clear(head[f[0]:f[1]])
		}
	}
	return head
}

var errSections = errors.New("its sections are too many, or their names too long")

// Sections returns an ELF file of 64 bits with its sections.
func Sections(file io.ReaderAt) (*elf.File, error) {
	without, err := Segments(file)
	if err != nil {
		return nil, err
	}
	var head elf.Header64
	if err := binary.Read(io.NewSectionReader(file, 0, headSize), without.ByteOrder, &head); err != nil {
		return nil, err
	}
	if head.Shoff == 0 {
		return without, nil
	}
	// With none in the header, the first section would have their number.
	if without.Class != elf.ELFCLASS64 || head.Shnum == 0 || head.Shnum > maxSections || head.Shstrndx >= head.Shnum {
		return nil, errSections
	}
	var names elf.Section64
	at := int64(head.Shoff) + int64(head.Shstrndx)*int64(head.Shentsize)
	err = binary.Read(io.NewSectionReader(file, at, int64(binary.Size(names))), without.ByteOrder, &names)
	if err != nil {
		return nil, err
	}
	if elf.SectionFlag(names.Flags)&elf.SHF_COMPRESSED != 0 || names.Size > maxNames/uint64(head.Shnum) {
		return nil, errSections
	}
	return elf.NewFile(file)
}

const (
	maxDynamic = 4096 // entries of a dynamic section
	maxNeeded  = 512
	maxName    = 4096 // bytes of a path
)

// Needed returns the libraries that an ELF file names, where the dynamic linker reads them: by
// segments. Of more than maxNeeded it returns so many.
func Needed(f *elf.File) (names []string) {
	text := uint64(0)
	var at []uint64 // places in text
	for tag, value := range dynamic(f) {
		switch {
		case tag == elf.DT_STRTAB:
			text = value
		case tag == elf.DT_NEEDED && len(at) < maxNeeded:
			at = append(at, value)
		}
	}
	for _, place := range at {
		if name := textAt(f, text+place); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// dynamic returns the entries of the dynamic section.
func dynamic(f *elf.File) func(yield func(elf.DynTag, uint64) bool) {
	return func(yield func(elf.DynTag, uint64) bool) {
		for _, p := range f.Progs {
			if p.Type != elf.PT_DYNAMIC {
				continue
			}
			word := 8
			if f.Class == elf.ELFCLASS32 {
				word = 4
			}
			entries := make([]byte, min(p.Filesz, uint64(maxDynamic*2*word)))
			n, _ := p.ReadAt(entries, 0)
			for entries = entries[:n]; len(entries) >= 2*word; entries = entries[2*word:] {
				tag := elf.DynTag(number(f, entries[:word]))
				if tag == elf.DT_NULL || !yield(tag, number(f, entries[word:2*word])) {
					return
				}
			}
			return
		}
	}
}

func number(f *elf.File, b []byte) uint64 {
	if len(b) == 4 {
		return uint64(f.ByteOrder.Uint32(b))
	}
	return f.ByteOrder.Uint64(b)
}

// textAt returns the text at an address, or "".
func textAt(f *elf.File, address uint64) string {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		text := make([]byte, min(maxName, p.Filesz-(address-p.Vaddr)))
		n, _ := p.ReadAt(text, int64(address-p.Vaddr))
		name, _, whole := bytes.Cut(text[:n], []byte{0})
		if whole {
			return string(name)
		}
		return ""
	}
	return ""
}
