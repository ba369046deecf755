package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// hidden is which of the ranks' streams are not shown, a bit for each.
type hidden uint8

// Streams that may be hidden. torchrun has the same bits.
const (
	hideStdout hidden = 1
	hideStderr hidden = 2
	hideAll           = hideStdout | hideStderr
)

func (h *hidden) Type() string { return "stream" }

func (h *hidden) String() string { return [...]string{"none", "stdout", "stderr", "all"}[*h&hideAll] }

func (h *hidden) Set(text string) error {
	for _, other := range []hidden{0, hideStdout, hideStderr, hideAll} {
		if other.String() == text {
			*h = other
			return nil
		}
	}
	return errors.New("want stdout, stderr, all or none")
}

// of reports whether the ranks' stdout (fd 1) or stderr (fd 2) is hidden.
func (h hidden) of(fd int) bool { return h>>(fd-1)&1 != 0 }

// shown is a launcher.Options.Show: the streams of ranks that neither --show nor --hide leaves out.
func shown(ranks func(rank int) bool, h hidden) func(rank, fd int) bool {
	if ranks == nil && h == 0 {
		return nil
	}
	return func(rank, fd int) bool { return (ranks == nil || ranks(rank)) && !h.of(fd) }
}

// redirect reads torchrun's --redirects and --tee: 0 none, 1 stdout, 2 stderr, 3 both. What is
// redirected goes to files only, unless it is in --tee.
func (t *translator) redirect(typed, text string, to *hidden) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > uint64(hideAll) {
		return usagef("give one number for all ranks: 0 none, 1 stdout, 2 stderr, 3 both; --show 0,2 shows some ranks only",
			"%s %s: gorun has nothing that does this", typed, text)
	}
	*to = hidden(n)
	h := t.redirected &^ t.teed
	if h == 0 && t.typed["hide"] == "" {
		return nil
	}
	return t.emit("hide", typed, []string{h.String()}) // the last one counts
}

// outputDir reads Open MPI's directory for output: DIR:nocopy is for files only.
func (t *translator) outputDir(typed, text string) error {
	dir, qualifiers, _ := strings.Cut(text, ":")
	if err := t.emit("output-filename", typed, []string{dir}); err != nil {
		return err
	}
	if !slices.Contains(strings.Split(qualifiers, ","), "nocopy") {
		return nil
	}
	return t.emit("hide", typed, []string{"all"})
}
