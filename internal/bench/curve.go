package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Measured is the bus bandwidth of a size.
type Measured struct {
	Bytes int
	BusBW float64 // GB/s
}

// Places of a table's columns, from 0.
const (
	sizeColumn  = 0
	busBWColumn = 7
)

// maxSizes bounds the sizes of a curve.
const maxSizes = 1 << 16

// ReadCurve reads what gorun bench has printed, with or without --json, or a program of nccl-tests.
// Of several rows of a size the first counts. Other lines are ignored.
func ReadCurve(in io.Reader) (curve []Measured, err error) {
	known := map[int]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		m, is := measured(lines.Text())
		if len(curve) == maxSizes {
			return nil, fmt.Errorf("more than %d sizes", maxSizes)
		}
		if is && !known[m.Bytes] {
			known[m.Bytes] = true
			curve = append(curve, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(curve) == 0 {
		return nil, errors.New("no line has the columns of gorun bench or nccl-tests")
	}
	return curve, nil
}

// measured reads a line that is a row.
func measured(line string) (m Measured, is bool) {
	if strings.HasPrefix(line, "{") {
		var row Row
		err := json.Unmarshal([]byte(line), &row)
		return Measured{row.Bytes, row.BusBW}, err == nil && row.Bytes > 0
	}
	fields := strings.Fields(line)
	if len(fields) <= busBWColumn {
		return m, false
	}
	size, sizeErr := strconv.Atoi(fields[sizeColumn])
	speed, speedErr := strconv.ParseFloat(fields[busBWColumn], 64)
	return Measured{size, speed}, sizeErr == nil && speedErr == nil && size > 0
}
