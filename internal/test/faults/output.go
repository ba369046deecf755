package faults

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// CheckLines judges the output, without prefixes, of ranks that run internal/test/faults/rank.
// Every rank's lines must be the first it wrote, each once, in order and whole; with complete, also
// its last. torn allows the very end to be part of a line.
func CheckLines(out string, ranks int, complete, torn bool) (broken []string) {
	next := make([]int, ranks)
	ended := make([]bool, ranks)
	for line := range strings.Lines(out) {
		rank, number, text, err := parseLine(line)
		switch {
		case strings.HasPrefix(line, "WRONG"):
			broken = append(broken, "I6: "+strings.TrimSpace(line))
		case err != nil && torn && !strings.HasSuffix(line, "\n"):
		case err != nil:
			broken = append(broken, fmt.Sprintf("I5: %q: %v", line, err))
		case rank < 0 || rank >= ranks:
			broken = append(broken, fmt.Sprintf("I5: a line of rank %d, which is none", rank))
		case number != next[rank] || ended[rank]:
			broken = append(broken, fmt.Sprintf("I5: rank %d's line %d came where %d was next", rank, number,
				next[rank]))
			next[rank] = number + 1
		default:
			next[rank]++
			ended[rank] = text == "end"
		}
		if len(broken) > 5 {
			return append(broken, "I5: and so on")
		}
	}
	for rank, done := range ended {
		if complete && !done {
			broken = append(broken, fmt.Sprintf("I5: rank %d's output ends with line %d, which is not its last", rank,
				next[rank]-1))
		}
	}
	return broken
}

// parseLine takes "RANK NUMBER TEXT CHECKSUM" apart.
func parseLine(line string) (rank, number int, text string, err error) {
	line, whole := strings.CutSuffix(line, "\n")
	if !whole {
		return 0, 0, "", fmt.Errorf("the line is cut off")
	}
	f := strings.Split(line, " ")
	if len(f) != 4 {
		return 0, 0, "", fmt.Errorf("%d words", len(f))
	}
	said := strings.TrimSuffix(line, " "+f[3])
	if sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(said))); sum != f[3] {
		return 0, 0, "", fmt.Errorf("its checksum is %s", sum)
	}
	if rank, err = strconv.Atoi(f[0]); err == nil {
		number, err = strconv.Atoi(f[1])
	}
	return rank, number, f[2], err
}
