package pyframes

// Each function of this file returns the line of the instruction at a byte offset of a function's
// code, from the function's first line and its table; 0 if the instruction has no line.

// byPairs reads co_lnotab of 3.9: pairs of differences, of offsets and of lines.
func byPairs(table []byte, line, at int) int {
	for offset := 0; len(table) >= 2; table = table[2:] {
		if offset += int(table[0]); offset > at {
			break
		}
		line += int(int8(table[1]))
	}
	return line
}

// byRanges reads co_linetable of 3.10: pairs of the length of a range and the difference of its
// line. -128 marks a range without a line.
func byRanges(table []byte, line, at int) int {
	for end := 0; len(table) >= 2; table = table[2:] {
		end += int(table[0])
		difference := int(int8(table[1]))
		if difference != -128 {
			line += difference
		}
		if at < end {
			if difference == -128 {
				return 0
			}
			return line
		}
	}
	return 0
}

// byLocations reads co_linetable since 3.11: entries whose first byte alone has its highest bit
// set, with a kind and a number of instructions of two bytes.
func byLocations(table []byte, line, at int) int {
	for end := 0; len(table) > 0; {
		head := table[0]
		table = table[1:]
		end += 2 * (int(head&7) + 1)
		kind := head >> 3 & 15
		none := false
		switch kind {
		case 15:
			none = true
		case 13, 14:
			line += signed(table)
		case 11, 12:
			line += int(kind - 10)
		}
		if at < end {
			if none {
				return 0
			}
			return line
		}
		for len(table) > 0 && table[0]&0x80 == 0 {
			table = table[1:]
		}
	}
	return 0
}

// signed reads a number in digits of six bits, the lowest first. The lowest bit is the sign.
func signed(data []byte) int {
	var value uint32
	for i, c := range data[:min(len(data), 5)] {
		value |= uint32(c&0x3f) << (6 * i)
		if c&0x40 == 0 {
			break
		}
	}
	if value&1 == 1 {
		return -int(value >> 1)
	}
	return int(value >> 1)
}
