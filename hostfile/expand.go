package hostfile

import (
	"fmt"
	"strconv"
	"strings"
)

// Hostlist expands a hostlist expression of Slurm, such as n[08-11],m5 or r[1-2]n[1-2]: items
// separated by commas or blanks, each a text with any number of number ranges in brackets, of which
// the last varies fastest. The first number's width is kept. Order and duplicates are kept, too.
// Text may follow a bracket. It yields at most [MaxExpand] names, which are not validated. name is
// the name of the text in errors, each a [*ParseError].
func Hostlist(name, text string) ([]string, error) {
	text = strings.NewReplacer(" ", ",", "\t", ",", "\r", ",", "\n", ",").Replace(text)
	var names []string
	for col := 1; ; {
		item, rest, more := cutItem(text)
		w := word{raw: item, col: col}
		if item != "" {
			some, msg := expand(item, MaxExpand-len(names))
			if msg != "" {
				err := w.fault(msg)
				err.File = name
				return nil, err
			}
			names = append(names, some...)
		}
		if !more {
			break
		}
		col += len(item) + 1
		text = rest
	}
	if len(names) == 0 {
		return nil, &ParseError{File: name, Msg: "no host in it"}
	}
	return names, nil
}

const (
	notClosed = "the bracket is not closed"
	tooMany   = "stands for more than 65536 hosts"
	longName  = "a host name has at most 253 characters"
)

// expand returns the names of a text with ranges, at most limit. msg is "" or the
// error.
func expand(item string, limit int) (names []string, msg string) {
	names = []string{""}
	length := 0
	literal := ""
	for rest := item; ; {
		var more bool
		literal, rest, more = strings.Cut(rest, "[")
		length += len(literal)
		switch {
		case strings.Contains(literal, "]"):
			return nil, "a ] without its ["
		case length > maxName:
			return nil, longName
		case !more:
			if len(names) > limit {
				return nil, tooMany
			}
			for i := range names {
				names[i] += literal
			}
			return names, ""
		}
		inner, after, closed := strings.Cut(rest, "]")
		if !closed {
			return nil, notClosed
		}
		numbers, width, msg := expandRanges(inner, limit/len(names))
		if msg != "" {
			return nil, msg
		}
		if length += width; length > maxName {
			return nil, longName
		}
		names = multiply(names, literal, numbers)
		rest = after
	}
}

// multiply appends each number to each name.
func multiply(names []string, literal string, numbers []string) []string {
	all := make([]string, 0, len(names)*len(numbers))
	for _, name := range names {
		for _, number := range numbers {
			all = append(all, name+literal+number)
		}
	}
	return all
}

// expandRanges returns the numbers of lo-hi,lo-hi in order, and their greatest width.
func expandRanges(inner string, limit int) (numbers []string, width int, msg string) {
	for span := range strings.SplitSeq(inner, ",") {
		first, last, isRange := strings.Cut(span, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 10, 63)
		hi, err2 := strconv.ParseUint(last, 10, 63)
		switch {
		case err1 != nil || err2 != nil:
			return nil, 0, fmt.Sprintf("%q is no range of numbers; write f[01-16,20]", span)
		case hi < lo:
			return nil, 0, fmt.Sprintf("the range %s runs backwards; write %s-%s", span, last, first)
		case hi-lo >= uint64(max(limit-len(numbers), 0)):
			return nil, 0, tooMany
		}
		width = max(width, len(first), len(last))
		if width > maxName {
			return nil, 0, longName
		}
		for n := lo; n <= hi; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return numbers, width, ""
}

// Counts expands a list of numbers with repetitions in Slurm's format: 2(x3),1 is 2, 2, 2 and 1. It
// yields at most [MaxExpand] numbers from 0 to [MaxSlots]. name is the name of the text in errors,
// each a [*ParseError].
func Counts(name, text string) ([]int, error) {
	var counts []int
	col := 1
	for item := range strings.SplitSeq(text, ",") {
		number, repeat, repeated := strings.Cut(item, "(x")
		n, err := strconv.ParseUint(number, 10, 31)
		times := 1
		ok := true
		if repeated {
			repeat, ok = strings.CutSuffix(repeat, ")")
			if ok {
				times, ok = atoi(repeat, MaxExpand)
			}
		}
		w := word{raw: item, col: col}
		var fault *ParseError
		switch {
		case err != nil || !ok || n > MaxSlots:
			fault = w.fault("expected numbers such as 2(x3),1")
		case len(counts)+times > MaxExpand:
			fault = w.fault(tooMany)
		}
		if fault != nil {
			fault.File = name
			return nil, fault
		}
		for range times {
			counts = append(counts, int(n))
		}
		col += len(item) + 1
	}
	return counts, nil
}
