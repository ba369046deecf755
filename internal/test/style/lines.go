package main

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Columns of a line, with tabs of four.
const (
	maxCode    = 120
	maxComment = 100
	tab        = 4
)

// lines refuses lines that are too long. The expected output of an example, lines with a raw string
// that spans lines or is itself too long to fit, and those of one word that cannot be broken are
// free.
func lines() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "lines",
		Doc:  "refuses code over 120 columns and comments over 100",
		Run: func(pass *analysis.Pass) (any, error) {
			return nil, eachFile(pass, func(file source) {
				kinds := classify(file)
				for i, text := range strings.Split(string(file.text), "\n") {
					limit := maxCode
					switch kinds[i+1] {
					case free:
						continue
					case comment:
						limit = maxComment
					}
					if n := width(text); n > limit {
						pass.Reportf(file.start(i+1), "%d columns: at most %d", n, limit)
					}
				}
			})
		},
	}
}

type kind int

const (
	code kind = iota
	comment
	free
)

// classify tells the kinds of the lines of a file that are not code.
func classify(file source) map[int]kind {
	kinds := map[int]kind{}
	for _, group := range file.syntax.Comments {
		output := strings.HasPrefix(group.Text(), "Output:")
		for _, c := range group.List {
			if file.startsLine(c.Pos()) {
				kinds[file.line(c.Pos())] = comment
			}
			if output || directive(c.Text) {
				kinds[file.line(c.Pos())] = free
			}
		}
	}
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.BasicLit)
		if ok && s.Kind == token.STRING && unbreakable(s.Value) {
			for line := file.line(s.Pos()); line <= file.line(s.End()); line++ {
				kinds[line] = free
			}
		}
		return true
	})
	return kinds
}

// directive reports whether a comment is read by tools, or is a command or list that its columns
// belong to.
func directive(text string) bool {
	return strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//\t")
}

// unbreakable reports whether a string has no place to break it: a raw one, or a word.
func unbreakable(s string) bool {
	if strings.HasPrefix(s, "`") {
		return true
	}
	return !strings.Contains(s, " ") && len(s) > maxCode/2
}

func width(text string) int {
	n := 0
	for _, r := range text {
		if r == '\t' {
			n += tab - n%tab
		} else {
			n++
		}
	}
	return n
}
