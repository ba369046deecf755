package top

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal is the alternate screen of a terminal in raw mode.
type terminal struct {
	in, out *os.File
	old     *term.State
}

func openTerminal(in, out *os.File) (*terminal, error) {
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set up the terminal: %w", err)
	}
	t := &terminal{in, out, old}
	_, err = io.WriteString(out, "\x1b[?1049h\x1b[?25l") // the alternate screen, no cursor
	return t, err
}

func (t *terminal) close() {
	_, _ = io.WriteString(t.out, "\x1b[?25h\x1b[?1049l")
	_ = term.Restore(int(t.in.Fd()), t.old)
}

// size returns the columns and rows of the screen.
func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// draw shows lines in one write, so that nothing flickers.
func (t *terminal) draw(lines []string) error {
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := t.out.Write(b.Bytes())
	return err
}

// readKeys sends the names of keys until in ends.
func readKeys(in io.Reader, to chan<- string) {
	buf := make([]byte, 256)
	for {
		n, err := in.Read(buf)
		for _, key := range keysOf(string(buf[:n])) {
			to <- key
		}
		if err != nil {
			close(to)
			return
		}
	}
}

// keysOf returns the names of the keys in a terminal's input, without unknown keys.
func keysOf(text string) (keys []string) {
	sequences := []struct{ text, name string }{{"\x1b[A", "up"}, {"\x1bOA", "up"}, {"\x1b[B", "down"},
		{"\x1bOB", "down"}, {"\x1b[C", "right"}, {"\x1bOC", "right"},
		{"\x1b[D", "left"}, {"\x1bOD", "left"}, {"\x1b[5~", "pgup"}, {"\x1b[6~", "pgdn"}, {"\x1b[H", "home"},
		{"\x1bOH", "home"}, {"\x1b[1~", "home"},
		{"\x1b[F", "end"}, {"\x1bOF", "end"}, {"\x1b[4~", "end"}, {"\r", "enter"}, {"\n", "enter"}, {"\t", "tab"},
		{"\x7f", "backspace"}, {"\b", "backspace"}, {"\x03", "ctrl-c"}}
next:
	for text != "" {
		for _, s := range sequences {
			if rest, is := strings.CutPrefix(text, s.text); is {
				keys = append(keys, s.name)
				text = rest
				continue next
			}
		}
		if text[0] == '\x1b' {
			if len(text) > 1 && (text[1] == '[' || text[1] == 'O') { // unknown key
				end := strings.IndexFunc(text[2:], func(c rune) bool { return c >= '@' && c <= '~' })
				if end < 0 {
					return keys
				}
				text = text[2+end+1:]
				continue
			}
			keys = append(keys, "esc")
			text = text[1:]
			continue
		}
		c, size := utf8.DecodeRuneInString(text)
		if c >= ' ' && c != utf8.RuneError {
			keys = append(keys, string(c))
		}
		text = text[size:]
	}
	return keys
}
