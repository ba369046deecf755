package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// source is one file of a package, also one that is left out for this operating system.
type source struct {
	text   []byte
	file   *token.File
	syntax *ast.File
}

// eachFile calls check for each Go file of a package's folder that belongs to the build or is left
// out by its build constraints.
func eachFile(pass *analysis.Pass, check func(source)) error {
	syntax := pass.Files
	for _, name := range pass.IgnoredFiles {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := pass.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(pass.Fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		syntax = append(syntax[:len(syntax):len(syntax)], f)
	}
	for _, f := range syntax {
		file := pass.Fset.File(f.FileStart)
		text, err := pass.ReadFile(file.Name())
		if err != nil {
			return err
		}
		if ast.IsGenerated(f) || file.Size() != len(text) { // what cgo and go test write
			continue
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
