package pyframes

import (
	"encoding/binary"
	"fmt"
)

// layout has the offsets of fields in the structs of one version of CPython on machines with 64
// bits, and how that version numbers lines.
type layout struct {
	interpreterOffsets
	threadOffsets
	frameOffsets
	codeOffsets
	textOffsets
	objectType uint64
	line       func(table []byte, first, at int) int
}

// interpreterOffsets are those from the runtime to the threads.
type interpreterOffsets struct {
	interpreters    uint64 // runtime: the first interpreter
	nextInterpreter uint64
	threads         uint64 // the newest thread
}

type threadOffsets struct {
	nextThread  uint64 // the thread before it
	kernelID    uint64 // its number in its PID namespace; 0: there is no such field
	threadID    uint64 // its pthread_self
	frame       uint64 // the innermost frame, or a pointer to it with nested
	nested      bool
	nestedFrame uint64 // with nested, at that pointer: the innermost frame
}

type frameOffsets struct {
	previous    uint64 // its caller
	executable  uint64 // the code object
	instruction uint64 // the current instruction
	unit        int    // bytes that the number of an instruction counts; 0: instruction is a pointer
	owner       uint64 // the kind of frame; 0: there is no such field
}

type codeOffsets struct {
	filename  uint64
	name      uint64
	firstLine uint64
	lineTable uint64
	code      uint64 // the first instruction
}

// textOffsets are those of bytes and str.
type textOffsets struct {
	bytesSize  uint64
	bytesData  uint64
	textLength uint64
	textState  uint64
	asciiText  uint64 // str of ASCII alone: the characters
	wideText   uint64 // any other str: the characters
}

// ownFrames is the least kind of frame that the interpreter itself has put between those of Python.
const ownFrames = 3

// fixed returns the layout of a minor version that does not describe itself, from its headers. It
// is the same for all releases of the version, and on x86-64 and arm64.
func fixed(minor int) (l layout, known bool) {
	l.nextThread = 8
	l.objectType = 8
	l.bytesSize = 16
	l.bytesData = 32
	l.textLength = 16
	l.textState = 32
	switch minor {
	case 9, 10:
		l.interpreters = 32
		l.frame = 24
		l.threads = 8
		l.threadID = 176
		l.previous = 24
		l.executable = 32
		l.instruction = 104
		l.unit = 1
		l.filename = 104
		l.name = 112
		l.firstLine = 40
		l.lineTable = 120
		l.asciiText = 48
		l.wideText = 72
		l.line = byPairs
		if minor == 10 {
			l.instruction = 96
			l.unit = 2
			l.line = byRanges
		}
		return l, true
	case 11, 12:
		l.interpreters = 40
		l.threads = 16
		l.kernelID = 160
		l.frame = 56
		l.nested = true
		l.nestedFrame = 8
		l.previous = 48
		l.executable = 32
		l.instruction = 56
		l.owner = 69
		l.filename = 112
		l.name = 120
		l.firstLine = 72
		l.lineTable = 136
		l.code = 184
		l.asciiText = 48
		l.wideText = 72
		l.line = byLocations
		if minor == 12 {
			l.threads = 72
			l.kernelID = 144
			l.nestedFrame = 0
			l.previous = 8
			l.executable = 0
			l.owner = 70
			l.firstLine = 68
			l.code = 192
			l.asciiText = 40
			l.wideText = 56
		}
		return l, true
	}
	return l, false
}

// described says at which word of its table (_Py_DebugOffsets) a version since 3.13 has the offsets
// of a struct. Within a struct the fields that matter here keep their places.
type described struct {
	thread, ids, frame, code, object, bytes, text int
}

func tableOf(minor int) (at described, known bool) {
	switch minor {
	case 13:
		return described{19, 24, 28, 34, 44, 64, 67}, true
	case 14:
		return described{22, 27, 31, 39, 50, 74, 77}, true
	case 15:
		return described{22, 30, 39, 47, 58, 86, 89}, true
	}
	return described{}, false
}

// cookie begins the table with which the runtime of 3.13 and later begins.
const cookie = "xdebugpy"

const (
	tableVersion = 1 // word of the table: PY_VERSION_HEX
	tableThreads = 2 // word of the table: whether threads run without a common lock
	tableWords   = 96
	finalRelease = 0xf // last hexadecimal digit but one of PY_VERSION_HEX
)

// describe reads the layout of a runtime that begins with a table.
func (s *space) describe(runtime uint64) (layout, error) {
	table := s.bytes(runtime, 8*tableWords)
	var wrong error
	word := func(i int) uint64 {
		value := binary.LittleEndian.Uint64(table[8*i:])
		if value > maxOffset {
			wrong = fmt.Errorf("its table of offsets has %d", value)
		}
		return value
	}
	version := binary.LittleEndian.Uint64(table[8*tableVersion:])
	at, known := tableOf(minor(version))
	if !known || !final(version) {
		return layout{}, unknownVersion(version)
	}
	if word(tableThreads) != 0 {
		return layout{}, fmt.Errorf("gorun does not know the free-threaded Python %s", named(version))
	}
	l := layout{
		interpreterOffsets: interpreterOffsets{
			interpreters:    word(5),
			nextInterpreter: word(8),
			threads:         word(9),
		},
		threadOffsets: threadOffsets{
			nextThread: word(at.thread + 2),
			frame:      word(at.thread + 4),
			threadID:   word(at.ids),
			kernelID:   word(at.ids + 1),
		},
		frameOffsets: frameOffsets{
			previous:    word(at.frame + 1),
			executable:  word(at.frame + 2),
			instruction: word(at.frame + 3),
			owner:       word(at.frame + 5),
		},
		codeOffsets: codeOffsets{
			filename:  word(at.code + 1),
			name:      word(at.code + 2),
			lineTable: word(at.code + 4),
			firstLine: word(at.code + 5),
			code:      word(at.code + 9),
		},
		textOffsets: textOffsets{
			bytesSize:  word(at.bytes + 1),
			bytesData:  word(at.bytes + 2),
			textState:  word(at.text + 1),
			textLength: word(at.text + 2),
			asciiText:  word(at.text + 3),
		},
		objectType: word(at.object + 1),
		line:       byLocations,
	}
	l.wideText = l.asciiText + 16 // length and address of the text in UTF-8
	return l, wrong
}

func minor(version uint64) int { return int(version >> 16 & 0xff) }

// final reports whether the version is no alpha, beta or candidate, whose structs may differ.
func final(version uint64) bool { return version>>24 == 3 && version>>4&0xf == finalRelease }

func named(version uint64) string {
	return fmt.Sprintf("%d.%d.%d", version>>24&0xff, version>>16&0xff, version>>8&0xff)
}

func unknownVersion(version uint64) error {
	return fmt.Errorf("gorun does not know Python %s, but releases of 3.9 to 3.15", named(version))
}
