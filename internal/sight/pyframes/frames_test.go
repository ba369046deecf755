package pyframes

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// Places in the memory that made returns.
const (
	dynamic     = 0x200
	hashes      = 0x300
	symbols     = 0x400
	names       = 0x500
	runtime     = 0x1000
	interpreter = 0x2000
	thread      = 0x3000
	frame       = 0x4000
	code        = 0x5000
	name        = 0x6000
	lines       = 0x7800
	codeType    = 0x8000
	size        = 0x9000
)

// made returns the memory of a Python 3.13 with one thread in the function f of the file "f", whose
// fields stand 8 bytes apart.
func made() memory {
	m := make(memory, size)
	copy(m, elf.ELFMAG+"\x02\x01")
	m.put(32, headerSize)
	m[56] = 2
	m.put(headerSize, uint64(elf.PT_LOAD))
	m.put(headerSize+segmentSize, uint64(elf.PT_DYNAMIC))
	m.put(headerSize+segmentSize+16, dynamic)
	m.put(dynamic, uint64(elf.DT_HASH), hashes, uint64(elf.DT_SYMTAB), symbols, uint64(elf.DT_STRTAB), names)
	m.put(hashes, 1|3<<32, 1, 2) // one bucket, in which are the symbols 1 and 2
	m.put(symbols+symbolSize, 1|1<<48, runtime, 0, 12|1<<48, codeType)
	copy(m[names:], "\x00_PyRuntime\x00PyCode_Type\x00")
	copy(m[runtime:], cookie)
	at, _ := tableOf(13)
	m.put(runtime+8, 0x030d00f0)
	for word, offset := range map[int]uint64{5: 0x400, 9: 8, at.thread + 2: 8, at.thread + 4: 16, at.ids + 1: 24,
		at.frame + 2: 8, at.frame + 3: 16, at.frame + 5: 24, at.code + 1: 16, at.code + 2: 24, at.code + 4: 32,
		at.code + 5: 40, at.code + 9: 48, at.object + 1: 8, at.bytes + 1: 16, at.bytes + 2: 32, at.text + 1: 32,
		at.text + 2: 16, at.text + 3: 40} {
		m.put(runtime+8*uint64(word), offset)
	}
	m.put(runtime+0x400, interpreter)
	m.put(interpreter+8, thread)
	m.put(thread+16, frame, 7)
	m.put(frame+8, code, code+48)
	m.put(code+8, codeType, name, name, lines, 9)
	m.put(name+16, 1, 0, 1<<2|1<<5|1<<6, 'f')
	m.put(lines+16, 2, 0, 0x80|13<<3|4<<8)
	return m
}

type memory []byte

// put writes words.
func (m memory) put(at uint64, words ...uint64) {
	for _, word := range words {
		binary.LittleEndian.PutUint64(m[at:], word)
		at += 8
	}
}

// counting counts reads.
type counting struct {
	io.ReaderAt
	reads int
	bytes int
}

func (c *counting) ReadAt(data []byte, at int64) (int, error) {
	c.reads++
	c.bytes += len(data)
	return c.ReaderAt.ReadAt(data, at)
}

// read returns the stacks as a text.
func read(t *testing.T, m []byte) string {
	t.Helper()
	memory := &counting{ReaderAt: bytes.NewReader(m)}
	threads, err := Frames(memory, []uint64{0, 0x123, 1 << 63})
	check.That(t, memory.reads <= maxRead/minCharge && memory.bytes <= maxRead, "%d reads of %d bytes", memory.reads,
		memory.bytes)
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, t := range threads {
		text += t.Name + ":"
		for _, f := range t.Frames {
			text += " " + f.String()
		}
		text += "; "
	}
	return text
}

func TestHostileMemoryIsBounded(t *testing.T) {
	const one = "thread 7: f (f:11); "
	long := "f" + strings.Repeat("\x00", maxString-1)
	for _, c := range []struct {
		name  string
		at    uint64
		words []uint64
		want  string
	}{
		{"as it should be", size - 8, nil, one},
		{"no ELF file", 0, []uint64{0}, ""},
		{"symbols in a circle", hashes + 16, []uint64{1}, ""},
		{"no buckets", hashes, []uint64{0}, ""},
		{"names elsewhere", dynamic + 40, []uint64{1 << 60}, ""},
		{"a later version", runtime + 8, []uint64{0x031000f0},
			"gorun does not know Python 3.16.0, but releases of 3.9 to 3.15"},
		{"a beta", runtime + 8, []uint64{0x030d00b1},
			"gorun does not know Python 3.13.0, but releases of 3.9 to 3.15"},
		{"free-threaded", runtime + 16, []uint64{1}, "gorun does not know the free-threaded Python 3.13.0"},
		{"a far field", runtime + 72, []uint64{1 << 40}, "its table of offsets has 1099511627776"},
		{"no interpreter", runtime + 0x400, []uint64{0}, ""},
		{"an interpreter nowhere", runtime + 0x400, []uint64{1 << 62}, "reading its memory at 0x4000000000000008: EOF"},
		{"interpreters in a circle", interpreter, []uint64{interpreter}, strings.Repeat(one, maxParents)},
		{"threads in a circle", thread + 8, []uint64{thread}, strings.Repeat(one, 64)},
		{"frames in a circle", frame, []uint64{frame}, "thread 7:" + strings.Repeat(" f (f:11)", 128) + "; "},
		{"frames of its own in a circle", frame, []uint64{frame, code, code + 48, 3}, ""},
		{"no code", frame + 8, []uint64{name}, "its stack changes while it is read"},
		{"a long name", name + 16, []uint64{1 << 62}, "thread 7: " + long + " (" + long + ":11); "},
		{"a name of no width", name + 32, []uint64{1 << 5}, "a name in its memory is no string of Python's"},
		{"a long table", lines + 16, []uint64{1 << 62}, "reading its memory at 0x7820: EOF"},
		{"an instruction before the code", frame + 16, []uint64{0}, one},
	} {
		m := made()
		m.put(c.at, c.words...)
		check.Equal(t, read(t, m), c.want, c.name)
	}
}

// Threads that all lead to large tables do not make the reader read without end.
func TestReadingIsBoundedInAll(t *testing.T) {
	m := append(made(), make(memory, maxTable)...)
	m.put(lines+16, maxTable)
	m.put(frame, frame)
	check.Equal(t, read(t, m), fmt.Sprintf("thread 7:%s; ", strings.Repeat(" f (f:11)", 15)))
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(made()))
	f.Fuzz(func(t *testing.T, m []byte) { read(t, m) })
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0x80 | 14<<3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xff, 1}, 3, 9)
	f.Fuzz(func(_ *testing.T, table []byte, first, at int) {
		byPairs(table, first, at)
		byRanges(table, first, at)
		byLocations(table, first, at)
	})
}
