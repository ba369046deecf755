package main

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// statements refuses assignments and definitions that have several values on their right. A swap
// and the clauses of a for statement may have them.
func statements() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "statements",
		Doc:  "refuses assignments of several values, except swaps and for clauses",
		Run: func(pass *analysis.Pass) (any, error) {
			return nil, eachFile(pass, func(file source) {
				clauses := map[ast.Stmt]bool{}
				ast.Inspect(file.syntax, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.ForStmt:
						clauses[n.Init] = true
						clauses[n.Post] = true
					case *ast.AssignStmt:
						if len(n.Rhs) > 1 && !clauses[n] && !isSwap(n) {
							pass.Reportf(n.Pos(), "%d values in one assignment: one statement each", len(n.Rhs))
						}
					case *ast.ValueSpec:
						if len(n.Values) > 1 {
							pass.Reportf(n.Pos(), "%d values in one definition: one statement each", len(n.Values))
						}
					}
					return true
				})
			})
		},
	}
}

// isSwap reports whether an assignment has the same expressions on both sides.
func isSwap(n *ast.AssignStmt) bool {
	if n.Tok != token.ASSIGN {
		return false
	}
	count := map[string]int{}
	for i := range n.Lhs {
		count[types.ExprString(n.Lhs[i])]++
		count[types.ExprString(n.Rhs[i])]--
	}
	for _, c := range count {
		if c != 0 {
			return false
		}
	}
	return true
}
