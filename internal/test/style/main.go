// Style refuses packed code in the Go files that it is given: several statements in one assignment,
// lines that are too long, and struct literals with several fields on a line. It also refuses
// assignments to variables that a goroutine has captured. It reads files, not packages, so that
// those of every operating system and processor are checked.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"

	"golang.org/x/tools/go/analysis"
)

func main() {
	faults := 0
	for _, name := range os.Args[1:] {
		found, err := check(name, []*analysis.Analyzer{statements(), literals(), lines(), captures()})
		if err != nil {
			fmt.Fprintln(os.Stderr, "style:", err)
			os.Exit(2)
		}
		for _, fault := range found {
			fmt.Println(fault)
		}
		faults += len(found)
	}
	if faults > 0 {
		os.Exit(1)
	}
}

// check returns what analyzers that need only the syntax find in a file.
func check(name string, analyzers []*analysis.Analyzer) (faults []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, a := range analyzers {
		pass := &analysis.Pass{
			Analyzer: a,
			Fset:     fset,
			Files:    []*ast.File{file},
			ReadFile: os.ReadFile,
			Report: func(d analysis.Diagnostic) {
				faults = append(faults, fmt.Sprintf("%s: %s", fset.Position(d.Pos), d.Message))
			},
		}
		if _, err := a.Run(pass); err != nil {
			return nil, err
		}
	}
	return faults, nil
}
