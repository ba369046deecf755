package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// fieldsOnALine is how many named fields of a struct may share a line.
const fieldsOnALine = 3

// literals refuses struct literals of more than three named fields that do not have each on a line
// of its own. The rows of a table, which are elements of a slice or map literal, are free.
func literals() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "literals",
		Doc:  "refuses struct literals of more than three fields with several on a line",
		Run: func(pass *analysis.Pass) (any, error) {
			return nil, eachFile(pass, func(file source) {
				rows := map[ast.Expr]bool{}
				ast.Inspect(file.syntax, func(n ast.Node) bool {
					c, ok := n.(*ast.CompositeLit)
					if !ok {
						return true
					}
					addRows(rows, c)
					if !rows[c] && named(c) > fieldsOnALine && crowded(file, c) {
						pass.Reportf(c.Pos(), "%d fields in one struct literal: one field a line", len(c.Elts))
					}
					return true
				})
			})
		},
	}
}

// addRows adds the elements of a slice or map literal.
func addRows(rows map[ast.Expr]bool, c *ast.CompositeLit) {
	switch c.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
	default:
		return
	}
	for _, e := range c.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Value
		}
		if address, ok := e.(*ast.UnaryExpr); ok {
			e = address.X
		}
		rows[e] = true
	}
}

// named returns the number of fields of a literal that names them all, or 0.
func named(c *ast.CompositeLit) int {
	switch c.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return 0
	}
	for _, e := range c.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return 0
		}
		if _, ok := pair.Key.(*ast.Ident); !ok {
			return 0
		}
	}
	return len(c.Elts)
}

// crowded reports whether two fields begin on one line.
func crowded(file source, c *ast.CompositeLit) bool {
	taken := map[int]bool{}
	for _, e := range c.Elts {
		line := file.line(e.Pos())
		if taken[line] {
			return true
		}
		taken[line] = true
	}
	return false
}
