// Package rankfile reads Open MPI's rankfiles: the host and cores of each rank of a job. It is
// pure.
package rankfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/usage"
)

// maxRank bounds the number of a rank.
const maxRank = 1 << 20

// Place is the host and the cores of a rank.
type Place struct {
	Host  string // name, or "" if Index counts
	Index int    // index of the host among those of the job, from +nK
	Cores string // 0-3, or 1:0-3 for the cores of socket 1; "": the job's binding counts
}

const example = "a line is for example: rank 0=f1 slot=0-3"

// Parse reads a rankfile; name is its name in errors, which are usage errors. The places are in the
// order of ranks, of which none may be missing. Blank lines and comments (# and // to the end of
// the line) are skipped.
func Parse(name string, r io.Reader) ([]Place, error) {
	places := map[int]Place{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(withoutComment(lines.Text()))
		if len(words) == 0 {
			continue
		}
		rank, place, err := parseLine(words)
		if _, twice := places[rank]; err == nil && twice {
			err = fmt.Errorf("rank %d is placed twice", rank)
		}
		if err != nil {
			return nil, usage.Errorf(example, "%s:%d: %w", name, n, err)
		}
		places[rank] = place
	}
	if err := lines.Err(); err != nil {
		return nil, usage.Errorf("", "read %s: %w", name, err)
	}
	if len(places) == 0 {
		return nil, usage.Errorf(example, "%s: it places no rank", name)
	}
	ordered := make([]Place, len(places))
	for rank := range ordered {
		place, known := places[rank]
		if !known {
			return nil, usage.Errorf(fmt.Sprintf("add a line for it: rank %d=HOST slot=CORES", rank),
				"%s: rank %d has no line, and there are lines for %d ranks", name, rank, len(places))
		}
		ordered[rank] = place
	}
	return ordered, nil
}

func withoutComment(line string) string {
	line, _, _ = strings.Cut(line, "#")
	line, _, _ = strings.Cut(line, "//")
	return line
}

// parseLine reads words such as rank 0=f1 slot=0-3.
func parseLine(words []string) (rank int, place Place, err error) {
	if !strings.EqualFold(words[0], "rank") || len(words) < 2 {
		return 0, place, fmt.Errorf("%q: expected rank N=HOST", words[0])
	}
	number, host, given := strings.Cut(words[1], "=")
	n, err := strconv.ParseUint(number, 10, 31)
	switch {
	case err != nil || !given || host == "" || n >= maxRank:
		return 0, place, fmt.Errorf("%q: expected N=HOST", words[1])
	case len(words) > 3:
		return 0, place, fmt.Errorf("%q: nothing may follow slot=", words[3])
	}
	if index, relative := strings.CutPrefix(host, "+n"); relative {
		if place.Index, err = strconv.Atoi(index); err != nil || place.Index < 0 {
			return 0, place, fmt.Errorf("%q: expected +n0 for the first host", host)
		}
	} else {
		place.Host = strings.Trim(host, `"`)
	}
	if len(words) == 2 {
		return int(n), place, nil
	}
	key, cores, _ := strings.Cut(words[2], "=")
	place.Cores = strings.Trim(cores, `"'`)
	switch {
	case key != "slot" && key != "slots":
		return 0, place, fmt.Errorf("%q: expected slot=CORES", words[2])
	case strings.HasPrefix(strings.ToLower(place.Cores), "p"):
		return 0, place, errors.New("gorun counts cores in the order of sockets, not as the system does: leave the p " +
			"out and count so")
	case place.Cores == "" || strings.Trim(place.Cores, "0123456789-,;:*") != "":
		return 0, place, fmt.Errorf("%q: expected cores such as 0-3, or 1:0-3 for those of socket 1", words[2])
	}
	return int(n), place, nil
}
