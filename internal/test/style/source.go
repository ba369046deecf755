package main

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// source is one file of a package.
type source struct {
	text   []byte
	file   *token.File
	syntax *ast.File
}

// eachFile calls check for each file of a package.
func eachFile(pass *analysis.Pass, check func(source)) error {
	for _, f := range pass.Files {
		file := pass.Fset.File(f.FileStart)
		text, err := pass.ReadFile(file.Name())
		if err != nil {
			return err
		}
		check(source{text: text, file: file, syntax: f})
	}
	return nil
}

func (s source) line(p token.Pos) int { return s.file.Line(p) }

// start returns where a line begins, counted from 1.
func (s source) start(line int) token.Pos { return s.file.LineStart(line) }

// startsLine reports whether nothing but space stands before a position on its line.
func (s source) startsLine(p token.Pos) bool {
	from := s.file.Offset(s.start(s.line(p)))
	return strings.TrimSpace(string(s.text[from:s.file.Offset(p)])) == ""
}
