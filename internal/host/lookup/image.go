package lookup

import (
	"bytes"
	"debug/elf"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/elfhead"
	"github.com/gorun/gorun/internal/prose"
)

// headSize is how much of a file says what it is. The kernel reads half of it.
const headSize = 512

// image is what a program's file says of itself.
type image struct {
	head   []byte // its first bytes
	size   int64
	binary *elf.File // its headers without sections, or nil
	loader string    // program that loads it if it is dynamically linked, or ""
}

// read returns the image of a file, which is empty if this process may not read it.
func read(path string) image {
	f, err := trust.OpenRegular(path)
	if err != nil {
		return image{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return image{}
	}
	i := image{size: info.Size()}
	i.head = make([]byte, headSize)
	n, _ := io.ReadFull(f, i.head)
	i.head = i.head[:n]
	i.binary, _ = elfhead.Segments(f)
	i.loader = loader(i.binary)
	return i
}

// shebang returns the interpreter that a script names in its first line, and the words after it.
func (i image) shebang() (interpreter, words string) {
	line, _, _ := bytes.Cut(i.head, []byte("\n"))
	rest, found := bytes.CutPrefix(line, []byte("#!"))
	if !found {
		return "", ""
	}
	// The kernel splits so: a \r belongs to the name.
	text := strings.Trim(string(rest), " \t")
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		return text[:end], strings.Trim(text[end:], " \t")
	}
	return text, ""
}

// loader returns the program that the kernel starts to load a dynamically linked one, or "".
func loader(binary *elf.File) string {
	if binary == nil {
		return ""
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < headSize {
			text, _ := io.ReadAll(p.Open())
			name, _, _ := bytes.Cut(text, []byte{0})
			return string(name)
		}
	}
	return ""
}

// missing returns how many bytes a binary lacks of those that the kernel loads.
func (i image) missing() int64 {
	const page = 4096 // the last page may be filled up
	if i.binary == nil {
		return 0
	}
	end := uint64(0)
	for _, p := range i.binary.Progs {
		if p.Type == elf.PT_LOAD {
			end = max(end, p.Off+p.Filesz)
		}
	}
	if lacks := int64(end) - i.size; lacks >= page {
		return lacks
	}
	return 0
}

// form is a kind of file that no kernel starts.
type form struct {
	begins string
	what   string // completes "FILE is "
	remedy string // %s is the file
}

// forms are kinds of files that are taken for programs, by their first bytes.
func forms() []form {
	const rebuild = "build it on this kind of host, or copy the program for Linux"
	const unpack = "unpack it: tar xf %s, gunzip or unzip, and name the program in it"
	return []form{
		{"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"},
		{"\xef\xbb\xbf#!", "a script with a byte order mark before #!",
			`remove the mark: LC_ALL=C sed -i '1s/^\xef\xbb\xbf//' %s`},
		{"MZ", "a program for Windows", rebuild},
		{"\xcf\xfa\xed\xfe", "a program for macOS", rebuild},
		{"\xce\xfa\xed\xfe", "a program for macOS", rebuild},
		{"\xca\xfe\xba\xbe", "a program for macOS, or a class of Java", rebuild + "; java runs a class"},
		{"\x1f\x8b", "compressed", unpack},
		{"PK\x03\x04", "a ZIP archive", "name its interpreter: python %s for a zipapp, java -jar %s for a jar"},
		{"!<arch>\n", "a static library", "link it into a program"},
	}
}

// machines returns the machines of ELF files by the names of Go's architectures.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386,
		"arm": elf.EM_ARM, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "riscv64": elf.EM_RISCV}
}

// uname returns the name that uname gives to a machine.
func uname(m elf.Machine) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "EM_"))
}

// unfit says what a file is that the kernel takes for no program, and what to do, or returns "".
func (i image) unfit(path string) (what, remedy string) {
	switch {
	case i.head == nil: // it may not be read
		return "", ""
	case len(i.head) == 0:
		return "empty", "copy or build it again"
	}
	for _, f := range forms() {
		if bytes.HasPrefix(i.head, []byte(f.begins)) {
			return f.what, strings.ReplaceAll(f.remedy, "%s", prose.Quoted(path))
		}
	}
	isELF := bytes.HasPrefix(i.head, []byte(elf.ELFMAG))
	own := machines()[runtime.GOARCH]
	switch b := i.binary; {
	case isELF && b == nil:
		return "cut off or damaged", "copy or build it again"
	case isELF && b.Machine != own:
		return "for " + uname(b.Machine) + ", and this host is " + uname(own),
			"build it for " + uname(own) + "; where hosts differ, %a in its path stands for amd64 or arm64"
	case isELF && b.Type == elf.ET_REL:
		return "an object file, not a program", "link it: cc -o PROGRAM " + prose.Quoted(path)
	case isELF:
		return "", ""
	}
	return script(i.head, path)
}

// script says what a text without #! lacks.
func script(head []byte, path string) (what, remedy string) {
	for len(head) > 0 && !utf8.Valid(head) && len(head) > headSize-utf8.UTFMax {
		head = head[:len(head)-1] // a character may be cut
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		return "", ""
	}
	if bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("#!")) {
		return "a script with something before its #!", "remove what stands before it"
	}
	interpreter := "sh"
	first := "#!/bin/sh"
	if filepath.Ext(path) == ".py" {
		interpreter = "python"
		first = "#!/usr/bin/env python3"
	}
	return "a script without #!", "write " + prose.Quoted(interpreter, path) +
		", or let it begin with the line " + first
}
