package main

import (
	"go/ast"
	"go/token"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// captures refuses assignments to variables that a goroutine has captured and may still read. A
// definition assigns too: ctx, cancel := context.WithTimeout(ctx, d) gives a parameter ctx a new
// value. A wait or a lock between the two, or in the goroutine's loop, makes the assignment safe,
// as far as the syntax tells.
func captures() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "captures",
		Doc:  "refuses assignments to variables that a goroutine has captured",
		Run: func(pass *analysis.Pass) (any, error) {
			for _, file := range pass.Files {
				for _, d := range file.Decls {
					if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
						checkCaptures(pass, f)
					}
				}
			}
			return nil, nil
		},
	}
}

// goroutine is a function literal that runs beside the code after it.
type goroutine struct {
	call ast.Node // starts it
	body *ast.FuncLit
	loop ast.Node // the loop around it, or nil
}

// barrier is a place where a function may wait for a goroutine.
type barrier struct {
	at token.Pos
	in ast.Node // the innermost function around it
}

// checkCaptures reports the assignments of a function.
func checkCaptures(pass *analysis.Pass, f *ast.FuncDecl) {
	var started []goroutine
	var barriers []barrier
	stack := []ast.Node{f}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if body := concurrent(n); body != nil {
			started = append(started, goroutine{n, body, loopAround(stack)})
		}
		// Deferred calls run at the end.
		if _, deferred := stack[len(stack)-1].(*ast.DeferStmt); isBarrier(n) && !deferred {
			barriers = append(barriers, barrier{n.Pos(), functionAround(stack)})
		}
		stack = append(stack, n)
		return true
	})
	for _, g := range started {
		read := captured(g.body)
		eachAssigned(f.Body, func(id *ast.Ident) {
			if id.Obj == nil || !read[id.Obj] || id.Obj.Pos() == id.Pos() || within(id, g.call) {
				return
			}
			from := g.call.End()
			to := id.Pos()
			if to < from { // only the loop's next turn comes after the goroutine
				if g.loop == nil || !within(id, g.loop) || within(id.Obj, g.loop) {
					return
				}
				from = g.loop.Pos()
				to = g.loop.End()
			}
			if !slices.ContainsFunc(barriers, func(b barrier) bool {
				return from <= b.at && b.at < to && within(g.call, b.in)
			}) {
				pass.Reportf(id.Pos(), "%s is assigned after the goroutine of line %d has captured it", id.Name,
					pass.Fset.Position(g.call.Pos()).Line)
			}
		})
	}
}

// concurrent returns the function literal that n starts as a goroutine, or nil.
func concurrent(n ast.Node) *ast.FuncLit {
	switch n := n.(type) {
	case *ast.GoStmt:
		if body, is := n.Call.Fun.(*ast.FuncLit); is {
			return body
		}
		return lastLiteral(n.Call)
	case *ast.CallExpr:
		if called, is := n.Fun.(*ast.SelectorExpr); is && (called.Sel.Name == "Go" || called.Sel.Name == "AfterFunc") {
			return lastLiteral(n)
		}
	}
	return nil
}

// lastLiteral returns the last argument of a call if it is a function literal.
func lastLiteral(call *ast.CallExpr) *ast.FuncLit {
	if len(call.Args) == 0 {
		return nil
	}
	body, _ := call.Args[len(call.Args)-1].(*ast.FuncLit)
	return body
}

// isBarrier reports whether a goroutine may wait for another at n.
func isBarrier(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.UnaryExpr:
		return n.Op == token.ARROW
	case *ast.SendStmt, *ast.SelectStmt:
		return true
	case *ast.CallExpr:
		called, is := n.Fun.(*ast.SelectorExpr)
		return is && (called.Sel.Name == "Wait" || called.Sel.Name == "Lock" || called.Sel.Name == "Run")
	}
	return false
}

// captured returns the variables of a literal's surroundings that it reads or assigns.
func captured(body *ast.FuncLit) map[*ast.Object]bool {
	all := map[*ast.Object]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if is && id.Obj != nil && id.Obj.Kind == ast.Var && !within(id.Obj, body) {
			all[id.Obj] = true
		}
		return true
	})
	return all
}

// eachAssigned calls each with the variables that a body assigns.
func eachAssigned(body ast.Node, each func(*ast.Ident)) {
	ast.Inspect(body, func(n ast.Node) bool {
		var targets []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			targets = n.Lhs
		case *ast.IncDecStmt:
			targets = []ast.Expr{n.X}
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				targets = []ast.Expr{n.Key, n.Value}
			}
		}
		for _, t := range targets {
			if id, is := t.(*ast.Ident); is {
				each(id)
			}
		}
		return true
	})
}

// loopAround returns the innermost loop of a stack of nodes in the innermost function, or nil.
func loopAround(stack []ast.Node) ast.Node {
	for _, n := range slices.Backward(stack) {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return n
		case *ast.FuncLit:
			return nil
		}
	}
	return nil
}

// functionAround returns the innermost function of a stack of nodes.
func functionAround(stack []ast.Node) ast.Node {
	for _, n := range slices.Backward(stack) {
		if _, is := n.(*ast.FuncLit); is {
			return n
		}
	}
	return stack[0]
}

// within reports whether a node begins inside another.
func within(inner interface{ Pos() token.Pos }, outer ast.Node) bool {
	return outer.Pos() <= inner.Pos() && inner.Pos() < outer.End()
}
