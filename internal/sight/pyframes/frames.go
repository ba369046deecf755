// Package pyframes reads from the memory of a process which functions its Python runs: CPython 3.9
// to 3.15 on Linux machines with 64 bits. The process need not answer, and is not stopped; no code
// and no file of its is used. It is pure over an io.ReaderAt.
package pyframes

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gorun/gorun/internal/sight/stacks"
)

// attempts bounds how often a stack is read that changes meanwhile.
const attempts = 4

// Frames returns the threads of the Python interpreter in a process, the main one first. memory has
// the process's addresses as offsets, images are the addresses at which ELF files begin there.
// Without such an interpreter it returns none and no error.
//
// The memory is not trusted: whatever it says, the work and the answer are bounded.
func Frames(memory io.ReaderAt, images []uint64) ([]stacks.Thread, error) {
	p, failed := find(&space{memory: memory, left: maxRead}, images)
	if p == nil || failed != nil {
		return nil, failed
	}
	var most []stacks.Thread
	for range attempts {
		threads, err := p.threads()
		if err == nil {
			return threads, nil
		}
		failed = err
		if len(threads) > len(most) {
			most = threads
		}
	}
	if len(most) > 0 { // other threads changed each time
		return most, nil
	}
	return nil, failed
}

// python is an interpreter in a process.
type python struct {
	*space
	layout
	runtime  uint64 // address of _PyRuntime
	codeType uint64 // address of PyCode_Type
}

// find returns nil without an error if there is none.
func find(s *space, images []uint64) (*python, error) {
	var files []image
	for _, base := range images {
		if file, ok := s.image(base); ok {
			files = append(files, file)
		}
		s.forget()
	}
	symbol := func(name string) uint64 {
		for i := range files {
			at := files[i].symbol(s, name)
			if failed := s.forget(); at != 0 && failed == nil {
				return at
			}
		}
		return 0
	}
	p := &python{space: s, runtime: symbol("_PyRuntime"), codeType: symbol("PyCode_Type")}
	if p.codeType == 0 {
		return nil, nil
	}
	err := p.recognize(symbol)
	return p, cmp.Or(err, s.forget())
}

var errOld = errors.New("gorun does not know Python before 3.9")

// recognize finds the version's layout.
func (p *python) recognize(symbol func(name string) uint64) (err error) {
	if p.runtime == 0 {
		return errOld
	}
	if string(p.bytes(p.runtime, len(cookie))) == cookie {
		p.layout, err = p.describe(p.runtime)
		return err
	}
	number := 9
	if at := symbol("Py_Version"); at != 0 { // since 3.11
		version := p.word(at)
		if number = minor(version); !final(version) {
			return unknownVersion(version)
		}
	} else if symbol("Py_Is") != 0 { // since 3.10
		number = 10
	} else if symbol("PyFrame_GetCode") == 0 { // since 3.9
		return errOld
	}
	layout, known := fixed(number)
	if p.layout = layout; !known {
		return fmt.Errorf("gorun does not know how Python 3.%d lays out its memory", number)
	}
	return nil
}

// threads returns the threads that could be read, and an error if one could not.
func (p *python) threads() (all []stacks.Thread, err error) {
	var found []uint64
	interpreter := p.word(p.runtime + p.interpreters)
	for range maxParents {
		if interpreter == 0 {
			break
		}
		thread := p.word(interpreter + p.layout.threads)
		for n := 0; thread != 0 && n < maxThreads; n++ {
			found = append(found, thread)
			thread = p.word(thread + p.nextThread)
		}
		interpreter = p.word(interpreter + p.nextInterpreter)
	}
	if err := p.forget(); err != nil {
		return nil, err
	}
	slices.Reverse(found) // the newest is the first in the list, the main one the last
	for _, at := range found[:min(len(found), stacks.MaxThreads)] {
		t := p.thread(at)
		if len(t.Frames) > 0 {
			all = append(all, t)
		}
		err = cmp.Or(p.forget(), err)
	}
	return all, err
}

// thread returns a thread without the frames that could not be read.
func (p *python) thread(at uint64) stacks.Thread {
	t := stacks.Thread{Name: fmt.Sprintf("thread %#x", p.word(at+p.threadID))}
	if p.kernelID != 0 {
		t.Name = fmt.Sprintf("thread %d", p.word(at+p.kernelID))
	}
	frame := p.word(at + p.layout.frame)
	if p.nested && frame != 0 {
		frame = p.word(frame + p.nestedFrame)
	}
	for n := 0; frame != 0 && n < 2*stacks.MaxFrames && len(t.Frames) < stacks.MaxFrames; n++ {
		if p.owner == 0 || p.bytes(frame+p.owner, 1)[0] < ownFrames {
			f := p.frame(frame)
			if p.err != nil {
				break
			}
			t.Frames = append(t.Frames, f)
		}
		frame = p.word(frame + p.previous)
	}
	return t
}

// frame returns a function in progress.
func (p *python) frame(at uint64) (f stacks.Frame) {
	code := p.word(at+p.executable) &^ 7 // the lowest bits are marks
	if p.word(code+p.objectType) != p.codeType {
		p.fail(errors.New("its stack changes while it is read"))
		return f
	}
	var offset int
	if p.unit != 0 {
		offset = int(int32(p.half(at+p.instruction))) * p.unit
	} else {
		offset = int(int64(p.word(at+p.instruction) - code - p.code))
	}
	f.Func = p.text(p.word(code+p.name), &p.layout)
	f.File = p.text(p.word(code+p.filename), &p.layout)
	first := int(int32(p.half(code + p.firstLine)))
	f.Line = max(0, p.line(p.table(p.word(code+p.lineTable), &p.layout), first, max(0, offset)))
	return f
}
