package pyframes

import (
	"debug/elf"
	"encoding/binary"
)

// image is an ELF file in memory. Its symbols are found as the dynamic linker finds them, by a hash
// table, so that no file is opened: a file may be gone, or another one now, or in a container.
type image struct {
	bias    uint64 // difference between addresses in memory and in the file
	symbols uint64
	names   uint64
	gnu     uint64 // DT_GNU_HASH; 0: none
	sysv    uint64 // DT_HASH; 0: none
}

const (
	headerSize  = 64 // elf.Header64
	segmentSize = 56 // elf.Prog64
	symbolSize  = 24 // elf.Sym64
	maxSegments = 64
	maxDynamic  = 256
)

// image reads the header of the ELF file at base. ok reports whether it is one with symbols.
func (s *space) image(base uint64) (i image, ok bool) {
	header := s.bytes(base, headerSize)
	if string(header[:6]) != elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)}) {
		return i, false
	}
	segments := base + binary.LittleEndian.Uint64(header[32:])
	count := min(binary.LittleEndian.Uint16(header[56:]), maxSegments)
	var dynamic uint64
	for n := range uint64(count) {
		segment := s.bytes(segments+n*segmentSize, segmentSize)
		offset := binary.LittleEndian.Uint64(segment[8:])
		address := binary.LittleEndian.Uint64(segment[16:])
		switch elf.ProgType(binary.LittleEndian.Uint32(segment)) {
		case elf.PT_LOAD:
			if offset == 0 {
				i.bias = base - address
			}
		case elf.PT_DYNAMIC:
			dynamic = address
		}
	}
	if dynamic == 0 {
		return i, false
	}
	i.read(s, dynamic+i.bias)
	return i, s.err == nil && i.symbols != 0 && i.names != 0 && (i.gnu != 0 || i.sysv != 0)
}

// read takes the addresses of the tables from the dynamic section.
func (i *image) read(s *space, at uint64) {
	for range maxDynamic {
		entry := s.bytes(at, 16)
		value := binary.LittleEndian.Uint64(entry[8:])
		if value < i.bias { // musl's linker leaves these as they are in the file
			value += i.bias
		}
		switch elf.DynTag(binary.LittleEndian.Uint64(entry)) {
		case elf.DT_NULL:
			return
		case elf.DT_SYMTAB:
			i.symbols = value
		case elf.DT_STRTAB:
			i.names = value
		case elf.DT_GNU_HASH:
			i.gnu = value
		case elf.DT_HASH:
			i.sysv = value
		}
		at += 16
	}
}

// symbol returns the address of a symbol that the file defines, or 0.
func (i *image) symbol(s *space, name string) uint64 {
	if i.gnu != 0 {
		return i.byGNU(s, name)
	}
	return i.bySysV(s, name)
}

func (i *image) byGNU(s *space, name string) uint64 {
	hash := uint32(5381)
	for _, c := range []byte(name) {
		hash = hash*33 + uint32(c)
	}
	head := s.bytes(i.gnu, 16)
	buckets := binary.LittleEndian.Uint32(head)
	first := binary.LittleEndian.Uint32(head[4:])
	blooms := binary.LittleEndian.Uint32(head[8:])
	shift := binary.LittleEndian.Uint32(head[12:])
	if buckets == 0 || blooms == 0 {
		return 0
	}
	bloom := s.word(i.gnu + 16 + 8*uint64(hash/64%blooms))
	if bloom>>(hash%64)&1 == 0 || bloom>>(hash>>shift%64)&1 == 0 {
		return 0
	}
	table := i.gnu + 16 + 8*uint64(blooms)
	chains := table + 4*uint64(buckets)
	index := s.half(table + 4*uint64(hash%buckets))
	for index >= first && s.err == nil {
		entry := s.half(chains + 4*uint64(index-first))
		if entry|1 == hash|1 {
			if at := i.named(s, index, name); at != 0 {
				return at
			}
		}
		if entry&1 == 1 {
			return 0
		}
		index++
	}
	return 0
}

func (i *image) bySysV(s *space, name string) uint64 {
	var hash uint32
	for _, c := range []byte(name) {
		hash = hash<<4 + uint32(c)
		hash ^= hash >> 24 & 0xf0
		hash &= 0x0fffffff
	}
	buckets := s.half(i.sysv)
	if buckets == 0 {
		return 0
	}
	chains := i.sysv + 8 + 4*uint64(buckets)
	for index := s.half(i.sysv + 8 + 4*uint64(hash%buckets)); index != 0 && s.err == nil; {
		if at := i.named(s, index, name); at != 0 {
			return at
		}
		index = s.half(chains + 4*uint64(index))
	}
	return 0
}

// named returns the address of the symbol with a number, or 0 if it has another name or is
// undefined.
func (i *image) named(s *space, index uint32, name string) uint64 {
	symbol := s.bytes(i.symbols+symbolSize*uint64(index), symbolSize)
	section := elf.SectionIndex(binary.LittleEndian.Uint16(symbol[6:]))
	found := s.bytes(i.names+uint64(binary.LittleEndian.Uint32(symbol)), len(name)+1)
	if string(found) != name+"\x00" || section == elf.SHN_UNDEF {
		return 0
	}
	return binary.LittleEndian.Uint64(symbol[8:]) + i.bias
}
