package inspect

import (
	"context"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/host/elfhead"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// maxDebug bounds the information for debuggers of a file that is read for lines, and maxAllDebug
// that of all files. Of larger ones a tool reads what it needs.
const (
	maxDebug    = 64 << 20
	maxAllDebug = 256 << 20
)

// lineLimit bounds the search for the lines of a process.
const lineLimit = time.Second

// sources finds lines of programs and libraries. It reads each file once for all processes of a
// host: a tool that reads them anew for each process takes four fifths of its time for it. It is
// safe for concurrent use.
type sources struct {
	mu    sync.Mutex
	files map[string]*source // files by device and inode
	taken uint64             // bytes of information for debuggers that are read
}

// source is a file with lines.
type source struct {
	once  sync.Once
	loads []elf.ProgHeader
	mu    sync.Mutex
	debug *dwarf.Data // nil: it has none
	large bool        // it has too much
}

// mapping is a part of a file in a process's memory.
type mapping struct {
	from, to, offset uint64
	mode, id, path   string
	of               *process.Process
}

// code reports whether the part has instructions.
func (m *mapping) code() bool { return strings.Contains(m.mode, "x") }

// mappings returns the parts of files in the process's memory.
func (s *subject) mappings() (all []mapping) {
	text, _ := s.own.Text("maps")
	for line := range strings.Lines(text) {
		var m mapping
		var device, inode string
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %s", &m.from, &m.to, &m.mode, &m.offset, &device,
			&inode); err == nil {
			m.id = device + " " + inode
			m.path = fields[5]
			m.of = s.own
			all = append(all, m)
		}
	}
	return all
}

// of returns the file of a mapping.
func (c *sources) of(m *mapping) *source {
	c.mu.Lock()
	if c.files == nil {
		c.files = map[string]*source{}
	}
	f := c.files[m.id]
	if f == nil {
		f = &source{}
		c.files[m.id] = f
	}
	c.mu.Unlock()
	f.once.Do(func() { f.open(m, c.take) })
	return f
}

// take reports whether a file's information for debuggers may be read.
func (c *sources) take(size uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > maxDebug || size > maxAllDebug-c.taken {
		return false
	}
	c.taken += size
	return true
}

func (f *source) open(m *mapping, take func(size uint64) bool) {
	opened, err := openFile(m.of, m.path)
	if err != nil {
		return
	}
	defer opened.Close()
	file, err := elfhead.Sections(opened)
	if err != nil {
		return
	}
	var size uint64
	for _, section := range file.Sections {
		switch {
		case strings.HasPrefix(section.Name, ".debug_"):
			size += section.Size
		case strings.HasPrefix(section.Name, ".zdebug_"): // says what size it has only when it is read
			size += maxDebug + 1
		}
	}
	if f.large = !take(size); size == 0 || f.large {
		return
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD {
			f.loads = append(f.loads, p.ProgHeader)
		}
	}
	file.Type = elf.ET_EXEC // in such a file nothing is relocated, for which all symbols would be read
	f.debug, _ = file.DWARF()
}

// within returns the result of do, or false if ctx ends before or do panics. A file that a rank has
// made may keep debug/dwarf busy for hours, or make it panic.
func within[T any](ctx context.Context, do func() T) (result T, done bool) {
	if ctx.Err() != nil {
		return result, false
	}
	results := make(chan T, 1)
	go func() {
		defer close(results)
		defer func() { _ = recover() }()
		results <- do()
	}()
	select {
	case result, done = <-results:
	case <-ctx.Done():
	}
	return result, done
}

// large reports whether a tool should find the lines of the process.
func (c *sources) large(ctx context.Context, all []mapping) bool {
	large, known := within(ctx, func() bool {
		return slices.ContainsFunc(all, func(m mapping) bool { return m.code() && c.of(&m).large })
	})
	return large && known
}

// line fills in the place of a function's code at an address, if the file says it before ctx ends.
func (c *sources) line(ctx context.Context, all []mapping, address uint64, frame *stacks.Frame) {
	found, is := within(ctx, func() (place stacks.Frame) {
		c.find(all, address, &place)
		return place
	})
	if is && found.File != "" {
		frame.File = found.File
		frame.Line = found.Line
	}
}

func (c *sources) find(all []mapping, address uint64, frame *stacks.Frame) {
	for i := range all {
		m := &all[i]
		if address < m.from || address >= m.to || !m.code() {
			continue
		}
		f := c.of(m)
		offset := address - m.from + m.offset
		for _, p := range f.loads {
			if offset >= p.Off && offset < p.Off+p.Filesz {
				f.find(offset-p.Off+p.Vaddr, frame)
			}
		}
	}
}

func (f *source) find(address uint64, frame *stacks.Frame) {
	if f.debug == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	unit, err := f.debug.Reader().SeekPC(address)
	if err != nil {
		return
	}
	lines, err := f.debug.LineReader(unit)
	var entry dwarf.LineEntry
	if err == nil && lines != nil && lines.SeekPC(address, &entry) == nil && entry.File != nil {
		frame.File = entry.File.Name
		frame.Line = entry.Line
	}
}
