// Package postmortem reads the end of a failed rank's stderr: which lines to quote, and the next
// step where the failure that they report is known. It is pure.
package postmortem

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

const (
	mostQuoted = 30 // lines
	fewQuoted  = 3  // lines of an end that is no report

	longestWord = 300 // bytes of a line in a hint
)

// Rank is what else is known of a rank.
type Rank struct {
	Host    string
	Program string // path of its program; "": unknown
}

// Read returns the lines to quote of the end of a rank's stderr, at most 30: a whole traceback, or
// else the last three lines, and the line that tells of a known failure. hint is what to do about
// that, or "".
func Read(lines []string, rank Rank) (quote []string, hint string) {
	quote = report(lines)
	at, row, groups := find(lines)
	if row < 0 {
		return quote, ""
	}
	if !slices.Contains(quote, lines[at]) {
		quote = append([]string{lines[at]}, quote[len(quote)-min(len(quote), mostQuoted-1):]...)
	}
	return quote, fill(known()[row].hint, groups, rank)
}

// fill puts words of the rank into a hint, each as a word of a shell: no word of a rank reads as
// gorun's, nor as a command where the hint has one.
func fill(hint string, groups []string, rank Rank) string {
	python := "the Python that ran"
	if strings.HasPrefix(path.Base(rank.Program), "python") {
		python = prose.Quoted(rank.Program)
	}
	there := ", which must exist on " + rank.Host + "; --stage . brings the working directory there"
	bring := "gorun cp FILE " + rank.Host + ":FOLDER brings it"
	if rank.Host == "localhost" {
		there = "; ranks start in the current directory, or in that of --wdir"
		bring = "check its name"
	}
	words := []string{"{host}", rank.Host, "{python}", python, "{there}", there, "{copy}", bring}
	for i, group := range groups {
		if group != "" {
			group = prose.Quoted(group[:min(len(group), longestWord)])
		}
		words = append(words, "$"+strconv.Itoa(i+1), group)
	}
	return strings.NewReplacer(words...).Replace(hint)
}

// report returns the report of an error at the end of lines, or the last few of them. It leaves out
// the middle of a long one.
func report(lines []string) []string {
	begins := regexp.MustCompile(`Traceback \(most recent call last\)|^panic: |^fatal error: |^Fatal Python error|` +
		`^terminate called|^thread '.*' panicked|^Exception in thread|Process received signal|^ERROR: LoadError`)
	from := len(lines) - min(len(lines), mostQuoted)
	if at := slices.IndexFunc(lines[from:], begins.MatchString); at >= 0 {
		return lines[from+at:]
	}
	for at := from - 1; at >= 0; at-- {
		if begins.MatchString(lines[at]) {
			rest := lines[len(lines)-(mostQuoted-2):]
			left := fmt.Sprintf("  ... (%d lines left out)", len(lines)-at-1-len(rest))
			return append([]string{lines[at], left}, rest...)
		}
	}
	return lines[len(lines)-min(len(lines), fewQuoted):]
}

// find returns the index of the last line that tells of a known failure, the row of the table, or
// -1, and the groups of the row's pattern.
func find(lines []string) (at, row int, groups []string) {
	table := known()
	patterns := make([]*regexp.Regexp, len(table))
	for i, k := range table {
		patterns[i] = regexp.MustCompile(k.pattern)
	}
	for at, line := range slices.Backward(lines) {
		for row, pattern := range patterns {
			if found := pattern.FindStringSubmatch(line); found != nil {
				return at, row, found[1:]
			}
		}
	}
	return 0, -1, nil
}
