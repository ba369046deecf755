package gpu

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Use is what a GPU does at a time.
type Use struct {
	Index       int
	UUID, Name  string
	Busy        int    // percent; -1 if unknown
	MemoryBytes uint64 // 0 if unknown
	MemoryUsed  uint64
}

// UseCommand returns the arguments with which nvidia-smi prints a line about each GPU, and again
// after each interval.
func UseCommand(every time.Duration) []string {
	seconds := max(1, int(every.Round(time.Second)/time.Second))
	return []string{"--query-gpu=index,uuid,name,utilization.gpu,memory.total,memory.used",
		"--format=csv,noheader,nounits", "--loop=" + strconv.Itoa(seconds)}
}

// ParseUse parses a line of UseCommand.
func ParseUse(line string) (u Use, err error) {
	f := strings.Split(strings.TrimSpace(line), ",")
	if len(f) != 6 {
		return u, fmt.Errorf("expected 6 values in %.200q", line)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	if u.Index, err = strconv.Atoi(f[0]); err != nil || u.Index < 0 {
		return u, fmt.Errorf("expected a device's number in %.200q", line)
	}
	u.UUID = known(f[1])
	u.Name = known(f[2])
	u.Busy = -1
	if busy, err := strconv.ParseUint(f[3], 10, 7); err == nil {
		u.Busy = int(busy)
	}
	if u.MemoryBytes, err = mebibytes(f[4]); err == nil {
		u.MemoryUsed, err = mebibytes(f[5])
	}
	return u, err
}
