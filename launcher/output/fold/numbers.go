package fold

import "strconv"

// span is the numbers that equal lines have at one place.
type span struct {
	from, to  int // place in the first line
	low, high number
}

// number is a number as it was printed.
type number struct {
	value float64
	text  string
}

// find returns the place of the first number of text from an index on: digits, possibly with a
// fraction, that no letter precedes. Without one, from is -1.
func find(text []byte, at int) (from, to int) {
	for i := at; i < len(text); i++ {
		if !isDigit(text[i]) {
			continue
		}
		if i > 0 && isWord(text[i-1]) {
			for i < len(text) && isWord(text[i]) {
				i++
			}
			continue
		}
		end := i
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		if end+1 < len(text) && text[end] == '.' && isDigit(text[end+1]) {
			for end++; end < len(text) && isDigit(text[end]); {
				end++
			}
		}
		return i, end
	}
	return -1, -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}

// appendShape appends text with a zero byte for each number.
func appendShape(b, text []byte) []byte {
	at := 0
	for {
		from, to := find(text, at)
		if from < 0 {
			return append(b, text[at:]...)
		}
		b = append(append(b, text[at:from]...), 0)
		at = to
	}
}

// spansOf appends the places and values of the numbers of text.
func spansOf(spans []span, text []byte) []span {
	for from, to := find(text, 0); from >= 0; from, to = find(text, to) {
		n := parse(text[from:to])
		spans = append(spans, span{from, to, n, n})
	}
	return spans
}

func parse(text []byte) number {
	value, _ := strconv.ParseFloat(string(text), 64) // infinite beyond the largest
	return number{value, string(text)}
}

// widen takes in the numbers of a line of the same shape.
func (g *group) widen(text []byte) {
	at := 0
	for i := range g.numbers {
		s := &g.numbers[i]
		from, to := find(text, at)
		at = to
		if string(text[from:to]) == s.low.text {
			continue
		}
		n := parse(text[from:to])
		if n.value < s.low.value {
			s.low = n
		}
		if n.value > s.high.value {
			s.high = n
		}
	}
}

// ranged returns text with the range of each number instead of its own.
func ranged(text []byte, spans []span) []byte {
	var line []byte
	at := 0
	for _, s := range spans {
		line = append(append(line, text[at:s.from]...), s.low.text...)
		if s.high.value > s.low.value {
			line = append(append(line, ".."...), s.high.text...)
		}
		at = s.to
	}
	return append(line, text[at:]...)
}
