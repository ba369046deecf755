package hostfile

import "strings"

// word is a word of a line with its position.
type word struct {
	text string // without quotes, and without blanks around a =
	raw  string // the user's spelling
	line int    // 1-based; 0 outside of files
	col  int    // 1-based column of the first byte
}

func (w word) fault(msg string) *ParseError {
	return &ParseError{
		Line: w.line,
		Col:  w.col,
		Word: w.raw,
		Msg:  msg,
	}
}

const blanks = " \t"

// lexer splits a hostfile into words, line by line, and drops comments. Its tokens
// are those of Open MPI's hostfile lexer.
type lexer struct {
	line  int
	block *ParseError // position of the open /* comment, or nil
}

// words returns the words of the next line.
func (x *lexer) words(line string) ([]word, *ParseError) {
	x.line++
	line = strings.TrimSuffix(line, "\r")
	var words []word
	for at := 0; at < len(line); {
		rest := line[at:]
		switch {
		case x.block != nil:
			end := strings.Index(rest, "*/")
			if end < 0 {
				return joinPairs(line, words), nil
			}
			x.block = nil
			at += end + 2
		case strings.HasPrefix(rest, "/*"):
			x.block = word{raw: "/*", line: x.line, col: at + 1}.fault("this comment has no end; close it with */")
			at += 2
		case startsComment(rest):
			return joinPairs(line, words), nil
		case strings.IndexByte(blanks, rest[0]) >= 0:
			at++
		default:
			w, err := x.word(line, at)
			if err != nil {
				return nil, err
			}
			words = append(words, w)
			at += len(w.raw)
		}
	}
	return joinPairs(line, words), nil
}

func startsComment(s string) bool { return s[0] == '#' || strings.HasPrefix(s, "//") }

// word returns the word that begins at a position of line. Double quotes protect
// blanks and comment signs.
func (x *lexer) word(line string, from int) (word, *ParseError) {
	w := word{line: x.line, col: from + 1}
	var text strings.Builder
	at := from
	for at < len(line) && strings.IndexByte(blanks, line[at]) < 0 && !startsComment(line[at:]) &&
		!strings.HasPrefix(line[at:], "/*") {
		if line[at] != '"' {
			text.WriteByte(line[at])
			at++
			continue
		}
		end := strings.IndexByte(line[at+1:], '"')
		if end < 0 {
			w.raw = line[from:]
			return w, w.fault(`the quote is not closed; write "name"`)
		}
		text.WriteString(line[at+1 : at+1+end])
		at += end + 2
	}
	w.text = text.String()
	w.raw = line[from:at]
	return w, nil
}

// joinPairs joins key = value to one word. It skips the first word of a line,
// which is the host.
func joinPairs(line string, words []word) []word {
	if len(words) == 0 {
		return nil
	}
	joined := words[:1]
	for _, w := range words[1:] {
		last := &joined[len(joined)-1]
		opened := strings.IndexByte(last.text, '=') == len(last.text)-1 && last.text != ""
		closes := strings.HasPrefix(w.text, "=") && !strings.Contains(last.text, "=")
		if len(joined) > 1 && (opened || closes) {
			last.text += w.text
			last.raw = line[last.col-1 : w.col-1+len(w.raw)]
			continue
		}
		joined = append(joined, w)
	}
	return joined
}

// fields splits a line of a scheduler's file or variable into words.
func fields(text string, line int) []word {
	var words []word
	for at := 0; at < len(text); {
		end := strings.IndexAny(text[at:], blanks+"\r\n")
		if end < 0 {
			end = len(text) - at
		}
		if end > 0 {
			w := text[at : at+end]
			words = append(words, word{w, w, line, at + 1})
		}
		at += end + 1
	}
	return words
}

// trim removes the blanks around w.
func trim(w word) word {
	left := strings.TrimLeft(w.raw, blanks)
	w.col += len(w.raw) - len(left)
	w.raw = strings.TrimRight(left, blanks)
	w.text = w.raw
	return w
}
